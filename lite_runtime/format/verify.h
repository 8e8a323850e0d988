#pragma once

#include "format/model.h"

namespace lite {

// Checks everything in an index that FlatBuffers does not know about: ids, ranges, names, sizes, operators and their
// attributes, expressions, updates. After it, readers trust the file.
Status verify_index(const Model& model, Error& error);

}  // namespace lite
