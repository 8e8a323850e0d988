#pragma once

#include "format/model.h"

namespace lite {

// Checks in an index whose rows are sound what joins entries: operands and results of control flow against the
// sub-graphs' in number, type and rank (sizes are compared when they are known), and that tapes stay between the
// operators that are made for them.
Status verify_control(const Model& model, Error& error);

}  // namespace lite
