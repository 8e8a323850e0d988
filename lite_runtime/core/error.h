#pragma once

#include <cstdarg>
#include <cstdio>

#include "core/status.h"

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
    return what;
  }
};

}  // namespace lite

// Ends a function that returns a Status where `call` fails.
#define LITE_TRY(call)                                                \
  do {                                                                \
    const ::lite::Status status_of_call = (call);                     \
    if (status_of_call != ::lite::Status::kOk) return status_of_call; \
  } while (0)
