// Runs the first case of a case file (see ir/cases.py) on a kernel again and again, for those who count or time it.
//
//   repeat_kernel CASES ISA TIMES
//
// What the kernel prepares is prepared once; it runs on one thread. Prints the instruction set of the kernel.

#include <cstdio>
#include <cstdlib>

#include "core/array.h"
#include "kernels/kernels.h"
#include "tools/case_file.h"
#include "tools/read_file.h"

namespace lite {
namespace {

int fail(const char* what) {
  std::fprintf(stderr, "repeat_kernel: %s\n", what);
  return 2;
}

Tensor tensor_of(CaseTensor& t) { return {t.bytes.data(), t.shape, t.dtype}; }

int repeat(const char* path, const char* isa, int times) {
  std::vector<uint8_t> file;
  if (!read_file(path, file)) return fail("the case file cannot be read");
  CaseReader reader(file);
  if (reader.header() < 1) return fail("want a case file with a case");
  Case c = reader.next();
  if (!reader.ok()) return fail("the case file is damaged, or written from another operator table");
  std::vector<Tensor> in, out;
  for (CaseTensor& t : c.in) in.push_back(tensor_of(t));
  for (CaseTensor& t : c.want) out.push_back(tensor_of(t));
  const int inputs = static_cast<int>(in.size());
  const Kernel* kernel = find_kernel(c.op->code, in[0].dtype, isa);
  if (kernel == nullptr) return fail("this processor has no such kernel");
  Arena prepared, scratch;
  Context context;
  if (kernel->prepare != nullptr) {
    const size_t size = kernel->prepare(in.data(), inputs, out.data(), c.attrs.data(), nullptr);
    if (!prepared.reserve(size)) return fail("no memory");
    kernel->prepare(in.data(), inputs, out.data(), c.attrs.data(), prepared.data());
    context.prepared = prepared.data();
  }
  if (kernel->scratch != nullptr) {
    const size_t size = kernel->scratch(in.data(), inputs, out.data(), c.attrs.data(), context.prepared);
    if (!scratch.reserve(size)) return fail("no memory");
    context.scratch = scratch.data();
  }
  for (int i = 0; i < times; ++i) {
    if (kernel->run(in.data(), inputs, out.data(), c.attrs.data(), context) != Status::kOk) return fail("it failed");
  }
  std::printf("%s\n", kernel->isa);
  return 0;
}

}  // namespace
}  // namespace lite

int main(int argc, char** argv) {
  if (argc != 4) return lite::fail("usage: CASES ISA TIMES");
  return lite::repeat(argv[1], argv[2], std::atoi(argv[3]));
}
