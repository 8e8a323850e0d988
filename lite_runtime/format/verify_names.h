#pragma once

#include "format/model.h"

namespace lite {

// Checks that names tell things apart: free dimensions, weights but constants, and each entry's inputs and outputs.
Status verify_names(const Model& model, Error& error);

}  // namespace lite
