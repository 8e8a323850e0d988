// The operator table as a reader of files needs it.

#include "format/op_info.h"

#include <algorithm>
#include <iterator>

#include "gen/op_table.h"

namespace lite {
namespace {

constexpr OpInfo kOps[] = {LITE_OP_ROWS};

}  // namespace

const OpInfo* find_op(int32_t code) {
  const OpInfo* end = std::end(kOps);
  const OpInfo* op = std::lower_bound(kOps, end, code, [](const OpInfo& o, int32_t c) { return o.code < c; });
  return op != end && op->code == code ? op : nullptr;
}

}  // namespace lite
