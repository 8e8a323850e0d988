// The C++17 face of the runtime: lite.h with owners and types. It throws nothing; whatever can fail says so.
//
//   lite::Session session = lite::Session::open("model.ms");
//   if (!session) return fail(session.error());
//   std::vector<float> x(28 * 28);
//   if (!session.set_input("image", x, {1, 28, 28, 1}) || !session.run()) return fail(session.error());
//   lite::Span<const float> logits = session.output<float>("logits");

#ifndef LITE_LITE_HPP_
#define LITE_LITE_HPP_

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lite/lite.h"

namespace lite {
inline namespace face {  // a name of its own: the runtime itself is in `lite`

// Elements that someone else owns.
template <typename T>
struct Span {
  T* data = nullptr;
  size_t size = 0;

  T& operator[](size_t i) const { return data[i]; }
  T* begin() const { return data; }
  T* end() const { return data + size; }
  bool empty() const { return size == 0; }
};

template <typename T>
constexpr lite_dtype dtype_of() {
  using U = std::remove_cv_t<T>;
  static_assert(std::is_arithmetic_v<U>, "a type that models have; of float16, pass the bytes through lite.h");
  if constexpr (std::is_same_v<U, bool>) return LITE_BOOL;
  if constexpr (std::is_same_v<U, float>) return LITE_F32;
  if constexpr (std::is_same_v<U, double>) return LITE_F64;
  if constexpr (std::is_same_v<U, int8_t>) return LITE_I8;
  if constexpr (std::is_same_v<U, uint8_t>) return LITE_U8;
  if constexpr (std::is_same_v<U, int16_t>) return LITE_I16;
  if constexpr (std::is_same_v<U, int32_t>) return LITE_I32;
  return LITE_I64;
}

// An open model. Functions give true, or something that is not empty, on success; error() says why not.
class Session {
 public:
  static Session open(const std::string& path, const lite_options& options = lite_default_options()) {
    return Session(
        [&](lite_session** s, char* error, size_t size) { return lite_open(path.c_str(), &options, s, error, size); });
  }
  // Copies the bytes.
  static Session open_memory(const void* bytes, size_t size, const lite_options& options = lite_default_options()) {
    return Session([&](lite_session** s, char* error, size_t error_size) {
      return lite_open_memory(bytes, size, &options, s, error, error_size);
    });
  }

  Session(Session&& other) noexcept { *this = std::move(other); }
  Session& operator=(Session&& other) noexcept {
    std::swap(session_, other.session_);
    std::swap(error_, other.error_);
    return *this;
  }
  ~Session() { lite_close(session_); }

  explicit operator bool() const { return session_ != nullptr; }
  const std::string& error() const { return error_; }
  lite_session* get() const { return session_; }  // for what is in lite.h alone

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (int32_t i = 0; i < lite_model_info(session_).entry_count; ++i)
      names.emplace_back(lite_entry_name(session_, i));
    return names;
  }

  // The elements are read in place by the next run of the entry.
  template <typename T>
  bool set_input(const std::string& name, Span<const T> elements, const std::vector<int32_t>& shape,
                 const std::string& entry = "infer") {
    const int32_t number = entry_number(entry);
    const int32_t input = number < 0 ? -1 : lite_find_input(session_, number, name.c_str());
    if (input < 0) return number >= 0 && refuse("no input " + name);
    if (shape.size() > LITE_MAX_RANK) return refuse("input " + name + ": a rank above 8");
    lite_tensor tensor = {};
    tensor.data = const_cast<T*>(elements.data);
    tensor.size_bytes = elements.size * sizeof(T);
    tensor.dtype = dtype_of<T>();
    tensor.rank = static_cast<int32_t>(shape.size());
    for (size_t i = 0; i < shape.size(); ++i) tensor.shape[i] = shape[i];
    return check(lite_set_input(session_, number, input, &tensor));
  }
  template <typename T>
  bool set_input(const std::string& name, const std::vector<T>& elements, const std::vector<int32_t>& shape,
                 const std::string& entry = "infer") {
    return set_input(name, Span<const T>{elements.data(), elements.size()}, shape, entry);
  }

  bool run(const std::string& entry = "infer") {
    const int32_t number = entry_number(entry);
    return number >= 0 && check(lite_run(session_, number));
  }

  // Runs an entry up to `steps` times; before each, `feed(step)` sets its inputs, whose elements must stay until it is
  // called again. Where that gives false the training ends; well, unless a call of this session failed in it. `losses`
  // gets the first output of every run. `feed` must not throw.
  template <typename Feed>
  bool train(int64_t steps, Feed feed, std::vector<float>* losses = nullptr, const std::string& entry = "train") {
    struct Feeder {
      Feed& feed;
      bool ended;
    } feeder{feed, false};
    const lite_feeder call = [](void* context, lite_session*, int64_t step, int32_t*) {
      Feeder& f = *static_cast<Feeder*>(context);
      f.ended = !f.feed(step);
      return f.ended ? LITE_CANCELLED : LITE_OK;
    };
    const int32_t number = entry_number(entry);
    if (number < 0) return false;
    error_.clear();
    if (losses != nullptr) losses->resize(steps > 0 ? static_cast<size_t>(steps) : 0);
    int64_t done = 0;
    const lite_status status =
        lite_train_run(session_, number, steps, call, &feeder, losses != nullptr ? losses->data() : nullptr, &done);
    if (losses != nullptr) losses->resize(static_cast<size_t>(done));
    return feeder.ended ? error_.empty() : check(status);
  }

  // A result of the last run; whole until the session runs or resizes again.
  template <typename T>
  Span<const T> output(const std::string& name, const std::string& entry = "infer") {
    const int32_t number = entry_number(entry);
    const int32_t output = number < 0 ? -1 : lite_find_output(session_, number, name.c_str());
    if (output < 0) {
      if (number >= 0) refuse("no output " + name);
      return {};
    }
    lite_tensor tensor;
    if (!check(lite_output(session_, number, output, &tensor))) return {};
    return typed<T>(tensor);
  }

  // Where a weight lies: it changes when an entry that trains runs.
  template <typename T>
  Span<const T> weight(const std::string& name) {
    lite_tensor tensor;
    const int32_t number = lite_find_weight(session_, name.c_str());
    if (number < 0 || !check(lite_weight(session_, number, &tensor, nullptr))) {
      refuse("no weight " + name);
      return {};
    }
    return typed<T>(tensor);
  }
  template <typename T>
  bool set_weight(const std::string& name, const std::vector<T>& elements) {
    const int32_t number = lite_find_weight(session_, name.c_str());
    if (number < 0) return refuse("no weight " + name);
    return check(lite_set_weight(session_, number, elements.data(), elements.size() * sizeof(T)));
  }

  bool resize(const std::string& symbol, int32_t size) {
    const char* name = symbol.c_str();
    return check(lite_resize(session_, &name, &size, 1));
  }
  bool save(const std::string& path) { return check(lite_save(session_, path.c_str())); }

 private:
  template <typename Open>
  explicit Session(Open open) {
    char error[256] = "";
    if (open(&session_, error, sizeof error) != LITE_OK) error_ = error;
  }

  int32_t entry_number(const std::string& name) {
    const int32_t number = lite_find_entry(session_, name.c_str());
    if (number < 0) refuse("no entry " + name);
    return number;
  }
  bool refuse(const std::string& why) {
    error_ = why;
    return false;
  }
  bool check(lite_status status) { return status == LITE_OK || refuse(lite_last_error(session_)); }

  template <typename T>
  Span<const T> typed(const lite_tensor& tensor) {
    if (tensor.dtype == dtype_of<T>() && tensor.data != nullptr) {
      return {static_cast<const T*>(tensor.data), tensor.size_bytes / sizeof(T)};
    }
    refuse(std::string(tensor.name) + " is " + lite_dtype_name(tensor.dtype) + ", or there was no run yet");
    return {};
  }

  lite_session* session_ = nullptr;
  std::string error_;
};

}  // namespace face
}  // namespace lite

#endif
