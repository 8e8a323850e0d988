#pragma once

#include "format/model.h"

namespace lite {

// Checks that an entry updates no weight twice, and that nothing behind an update reads the weight's old value: through
// a view from before, or in a sub-graph. All else of the index has been checked.
Status verify_updates(const Model& model, Error& error);

}  // namespace lite
