// Sizes of free dimensions and what follows from them.

#include "exec/sizes.h"

#include <algorithm>
#include <cstring>

namespace lite {

Status Sizes::load(const Model& model, Error& error) {
  model_ = &model;
  if (!symbols_.allocate(model.symbols()) || !kept_.allocate(model.symbols()) || !bound_.allocate(model.symbols())) {
    return error.set(Status::kOutOfMemory, "no memory for the sizes of a model");
  }
  for (uint32_t i = 0; i < model.symbols(); ++i) symbols_[i] = model.symbol(i).low();
  keep();
  return Status::kOk;
}

Status Sizes::set_symbol(uint32_t number, int32_t size, Error& error) {
  const format::Symbol& symbol = model_->symbol(number);
  if (bound_[number]) {
    return error.set(Status::kBadArgument, "%s = %d: a run finds this size itself", model_->name(symbol.name()), size);
  }
  if (size < symbol.low() || size > symbol.high()) {
    return error.set(Status::kBadArgument, "%s = %d: want %d to %d", model_->name(symbol.name()), size, symbol.low(),
                     symbol.high());
  }
  symbols_[number] = size;
  return Status::kOk;
}

void Sizes::add_bound(uint32_t number) { bound_[number] = any_bound_ = true; }

void Sizes::forget_bound() {
  for (size_t i = 0; i < bound_.size(); ++i) {
    if (bound_[i]) symbols_[i] = kept_[i] = -1;
  }
}

Status Sizes::bind(const int32_t* words, int32_t count, const int32_t* sizes, Error& error) {
  for (int32_t k = 0; k < count; ++k) {
    const auto number = static_cast<uint32_t>(lone_symbol(model_->expression(expression_of(words[k]))));
    const format::Symbol& symbol = model_->symbol(number);
    if (sizes[k] < symbol.low() || sizes[k] > symbol.high()) {
      return error.set(Status::kBadArgument, "%.60s = %d: want %d to %d", model_->name(symbol.name()), sizes[k],
                       symbol.low(), symbol.high());
    }
    if (symbols_[number] == sizes[k]) continue;
    symbols_[number] = kept_[number] = sizes[k];
    ++changes_;
  }
  return Status::kOk;
}

bool Sizes::changed() const { return !std::equal(symbols_.begin(), symbols_.end(), kept_.begin()); }

void Sizes::keep() { std::copy(symbols_.begin(), symbols_.end(), kept_.begin()); }

void Sizes::restore() { std::copy(kept_.begin(), kept_.end(), symbols_.begin()); }

bool Sizes::word(int32_t word, int32_t* number) const {
  int64_t value = word;
  const bool good = is_number(word) || evaluate(model_->expression(expression_of(word)), symbols_.data(), &value);
  *number = static_cast<int32_t>(value);
  return good && *number == value;
}

Status Sizes::unify(const int32_t* words, const Ints& shape, const char* input, Error& error) {
  for (int i = 0; i < shape.size; ++i) {
    if (is_number(words[i])) continue;
    const int symbol = lone_symbol(model_->expression(expression_of(words[i])));
    if (symbol < 0 || symbols_[static_cast<uint32_t>(symbol)] == shape[i]) continue;
    if (set_symbol(static_cast<uint32_t>(symbol), shape[i], error) != Status::kOk) {
      char reason[sizeof error.text];
      std::memcpy(reason, error.text, sizeof reason);
      return error.set(Status::kBadArgument, "input %.60s: %.180s", input, reason);
    }
  }
  return Status::kOk;
}

ShapeText::ShapeText(const Ints& shape) {
  int size = std::snprintf(text, sizeof text, "[");
  for (int i = 0; i < shape.size && size < static_cast<int>(sizeof text); ++i) {
    size += std::snprintf(text + size, sizeof text - static_cast<size_t>(size), i > 0 ? ",%d" : "%d", shape[i]);
  }
  std::strncat(text, "]", sizeof text - std::strlen(text) - 1);
}

ShapeText::ShapeText(const Model& model, const int32_t* words, int rank) {
  std::strcpy(text, "[");
  for (int i = 0; i < rank; ++i) {
    char size[40];
    model.size_text(words[i], size, sizeof size);
    if (i > 0) std::strncat(text, ",", sizeof text - std::strlen(text) - 1);
    std::strncat(text, size, sizeof text - std::strlen(text) - 1);
  }
  std::strncat(text, "]", sizeof text - std::strlen(text) - 1);
}

}  // namespace lite
