#pragma once

#include "core/error.h"
#include "format/model.h"

namespace lite {

// Checks that each size which a node binds during a run is bound once, and spoken of only behind that.
Status verify_sizes(const Model& model, Error& error);

}  // namespace lite
