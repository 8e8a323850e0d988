#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/status.h"
#include "core/utf8.h"

namespace lite {

// A status and one line that names the place, what is wrong with its values and what was wanted.
// The text is part of the object: to report that memory has run out needs no memory.
struct Error {
  Status status = Status::kOk;
  char text[256] = "";

  // Fills both and returns the status, so that a check reads `return error.set(...)`.
  [[gnu::format(printf, 3, 4)]] Status set(Status what, const char* format, ...) {
    status = what;
    va_list values;
    va_start(values, format);
    std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    make_printable();
    return what;
  }

 private:
  // Names and paths may be anything, and may have been cut inside a character.
  void make_printable() {
    uint8_t* bytes = reinterpret_cast<uint8_t*>(text);
    const size_t size = std::strlen(text);
    for (size_t i = 0; i < size;) {
      const size_t n = utf8_length(bytes + i, size - i);
      if (n == 0 || is_control(bytes[i])) bytes[i] = '?';
      i += n > 0 ? n : 1;
    }
  }
};

}  // namespace lite

// Ends a function that returns a Status where `call` fails.
#define LITE_TRY(call)                                                \
  do {                                                                \
    const ::lite::Status status_of_call = (call);                     \
    if (status_of_call != ::lite::Status::kOk) return status_of_call; \
  } while (0)
