#include "kernels/ref/fused_tiles.h"
#include "kernels/ref/loops.h"

namespace lite {
namespace {

FusedProgram program_of(const Call<fused_elementwise_attrs>& call) {
  FusedProgram program;
  program.read(call.attrs.program.data(), call.attrs.program.size, call.inputs);
  return program;
}

// Elements of x, stretched to `shape`, from number `begin` on.
void take(Tile& tile, const Tensor& x, const Ints& shape, int64_t begin) {
  tile.tensor.dtype = x.dtype;
  const size_t size = size_of(x.dtype);
  for (int i = 0; i < tile.tensor.shape[0]; ++i) {
    const size_t from = static_cast<size_t>(broadcast_offset(x.shape, shape, begin + i));
    std::memcpy(tile.elements + static_cast<size_t>(i) * size, x.as<unsigned char>() + from * size, size);
  }
}

}  // namespace

CHECK(fused_elementwise) {
  FusedProgram program;
  if (!program.read(call.attrs.program.data(), call.attrs.program.size, call.inputs)) return false;
  for (int i = 0; i < call.inputs; ++i) {
    if (!stretches_to(call.in[i].shape, call.y().shape)) return false;
  }
  for (int i = 0; i < program.results; ++i) {
    if (call.out[i].shape != call.y().shape) return false;
  }
  return program.check_types(call.in, call.out);
}

KERNEL(fused_elementwise, any, ref) {
  const FusedProgram program = program_of(call);
  FusedTilesOfRef tiles(program);
  const int64_t total = call.y().elements();
  for (int64_t begin = 0; begin < total; begin += kTile) {
    tiles.start(static_cast<int>(std::min<int64_t>(kTile, total - begin)));
    for (int i = 0; i < program.inputs; ++i) take(tiles.input(i), call.in[i], call.y().shape, begin);
    LITE_TRY(tiles.run());
    for (int i = 0; i < program.results; ++i) {
      const Tensor& from = tiles.result(i);
      const size_t element = size_of(from.dtype);
      std::memcpy(call.out[i].as<unsigned char>() + static_cast<size_t>(begin) * element, from.data, from.size_bytes());
    }
  }
  return Status::kOk;
}

}  // namespace lite
