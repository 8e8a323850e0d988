#pragma once

#include "format/model.h"

namespace lite {

// The sizes of an entry's free dimensions, and with them every word of the pool that stands for a size or an integer.
class Sizes {
 public:
  // Starts with the smallest sizes that the model was made for.
  Status load(const Model& model, Error& error);

  int32_t symbol(uint32_t number) const { return symbols_[number]; }

  // Free dimensions whose sizes a run finds: they have none until it binds them, nor after `forget_bound`.
  void add_bound(uint32_t number);
  void forget_bound();
  bool any_bound() const { return any_bound_; }
  // Gives those that the words are, one by one, these sizes.
  Status bind(const int32_t* words, int32_t count, const int32_t* sizes, Error& error);
  // Counts the times when one of them changed.
  uint64_t changes() const { return changes_; }

  // Gives a free dimension another size, for the time being: in the end `keep` or `restore` must follow.
  Status set_symbol(uint32_t number, int32_t size, Error& error);
  bool changed() const;
  void keep();
  void restore();

  // The number that a word stands for. It is computed each time: an entry uses few of a model's expressions. False: it
  // does not fit 32 bits at these sizes.
  bool word(int32_t word, int32_t* number) const;

  // Chooses sizes so that shape words at `words` become `shape`, as far as they are free dimensions.
  Status unify(const int32_t* words, const Ints& shape, const char* input, Error& error);

 private:
  const Model* model_ = nullptr;
  Array<int32_t> symbols_, kept_;
  Array<bool> bound_;
  bool any_bound_ = false;
  uint64_t changes_ = 0;
};

// A shape in brackets, such as "[8,3]" or, from the words of a file, "[batch,3]"; cut where it is too long.
struct ShapeText {
  explicit ShapeText(const Ints& shape);
  ShapeText(const Model& model, const int32_t* words, int rank);
  char text[96];
};

}  // namespace lite
