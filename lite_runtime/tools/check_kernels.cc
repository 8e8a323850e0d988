// Runs every case of a case file (see ir/cases.py) on every kernel of this build, and compares.
//
//   check_kernels CASES [--isa ref|avx2|avx512vnni|neon|...] [--by-operator]
//
// A kernel must agree with the reference, give the same bits on any number of threads, leave its
// inputs alone and stay inside its tensors. An operator's CHECK must take its samples, must refuse a
// result of another size or type, and whatever damaged call it does take must not lead a kernel out
// of its tensors.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

#include "core/half.h"
#include "kernels/kernels.h"
#include "kernels/layer_inputs.h"
#include "tools/case_file.h"
#include "tools/damage.h"
#if defined(__wasm__)
#include "tools/guarded_memory_wasm.h"
#else
#include "tools/guarded_memory.h"
#endif
#include "tools/read_file.h"

namespace lite {
namespace {

constexpr int kCallSeconds = 10;
constexpr float kOfHalves = 2e-3f;  // what arithmetic in float16 may add, relative to the largest element of a result

struct Score {
  int passed = 0, failed = 0;
};

using Bytes = std::vector<uint8_t>;

// A call whose tensors lie in guarded memory.
struct Placed {
  std::vector<Tensor> in, out;
  Context context;
  std::vector<uint8_t*> blocks;
};

// The word for a type in the names of kernels.
const char* word_of(DType dtype) {
  return dtype == DType::none ? "any" : dtype == DType::boolean ? "boolean" : name_of(dtype);
}

// Fills a block with the elements of a sample, again and again where the shape was made larger.
void fill(uint8_t* block, size_t size, const Bytes& from) {
  if (from.empty())
    std::memset(block, 0, size);
  else
    for (size_t at = 0; at < size; at += from.size())
      std::memcpy(block + at, from.data(), std::min(from.size(), size - at));
}

// Lays a call out in memory; false when it does not fit.
bool place(GuardedMemory& memory, const Case& c, Placed& call) {
  const auto block = [&](size_t size) {
    uint8_t* at = memory.place(static_cast<int>(call.blocks.size()), size);
    if (at != nullptr) call.blocks.push_back(at);
    return at;
  };
  for (const CaseTensor& t : c.in) {
    Tensor in = {nullptr, t.shape, t.dtype};
    if (in.present()) {
      uint8_t* at = block(in.size_bytes());
      if (at == nullptr) return false;
      fill(at, in.size_bytes(), t.bytes);
      in.data = at;
    }
    call.in.push_back(in);
  }
  for (size_t i = 0; i < c.want.size(); ++i) {
    Tensor out = {nullptr, c.want[i].shape, c.want[i].dtype};
    const bool in_place = static_cast<int>(i) < c.op->updates && i < call.in.size();
    out.data = in_place ? call.in[i].data : block(out.size_bytes());
    if (out.data == nullptr) return false;
    call.out.push_back(out);
  }
  return true;
}

// The call with its weight rounded to float16: as floats still, or stored so.
Case with_halves(const Case& c, bool stored) {
  Case rounded = c;
  CaseTensor& w = rounded.in[static_cast<size_t>(first_weight(c.op->code))];
  Bytes halves(w.bytes.size() / 2);
  for (size_t i = 0; i < w.bytes.size() / sizeof(float); ++i) {
    float x;
    std::memcpy(&x, w.bytes.data() + i * sizeof x, sizeof x);
    const Half half = to_half(x);
    const float back = to_float(half);
    std::memcpy(halves.data() + i * sizeof half, &half, sizeof half);
    std::memcpy(w.bytes.data() + i * sizeof back, &back, sizeof back);
  }
  if (!stored) return rounded;
  w.dtype = DType::f16;
  w.bytes = halves;
  return rounded;
}

const Kernel* kernel_for(const Case& c, const char* isa) {
  const DType dtype = c.in.empty() ? c.want[0].dtype : c.in[0].dtype;
  return find_kernel(c.op->code, dtype, isa);
}

class Checker {
 public:
  Checker(GuardedMemory& memory, const char* only_isa, ThreadPool* one, ThreadPool* three)
      : memory_(memory), only_isa_(only_isa), one_(one), three_(three) {}

  void check(const Case& c) {
    check_refusals(c);
    for (const char* isa : kIsas) {
      const Kernel* kernel = wanted(isa) ? kernel_for(c, isa) : nullptr;
      if (kernel != nullptr) check_kernel(c, *kernel);
    }
  }

  void print_scores() const {
    for (const auto& [name, score] : scores_) std::printf("%s %d %d\n", name.c_str(), score.passed, score.failed);
  }

  Score total() const {
    Score sum;
    for (const auto& [name, score] : scores_) sum.passed += score.passed, sum.failed += score.failed;
    return sum;
  }

 private:
  bool wanted(const char* isa) const { return only_isa_ == nullptr || std::strcmp(isa, only_isa_) == 0; }

  void record(const Case& c, const char* dtype, const char* isa, const std::string& failure) {
    Score& score = scores_[std::string(c.op->name) + " " + dtype + " " + isa];
    ++(failure.empty() ? score.passed : score.failed);
    if (!failure.empty()) std::printf("FAIL %s %s: %s\n", c.label.c_str(), isa, failure.c_str());
  }

  // Whether the operator's CHECK takes the call; a failure is what it died of.
  bool accepts(const Case& c, std::string& failure) {
    Placed call;
    if (!place(memory_, c, call)) return false;
    bool taken = false;
    const int number = survives(
        [&] {
          taken =
              check_call(c.op->code, call.in.data(), static_cast<int>(call.in.size()), call.out.data(), c.attrs.data());
        },
        kCallSeconds);
    if (number != 0) failure = "CHECK ended with signal " + std::to_string(number);
    return number == 0 && taken;
  }

  // Runs a kernel, with what it prepares or without, as often as it takes to guard every tensor. Returns what went
  // wrong, or "" and the results.
  std::string run(const Case& c, const Kernel& kernel, ThreadPool* pool, bool prepared, std::vector<Bytes>* results) {
    const int turns = GuardedMemory::turns(c.in.size() + c.want.size() + 2);
    std::string failure;
    for (int turn = 0; turn < turns && failure.empty(); ++turn) {
      memory_.turn(turn);
      failure = run_once(c, kernel, pool, prepared, results);
    }
    return failure;
  }

  std::string run_once(const Case& c, const Kernel& kernel, ThreadPool* pool, bool prepared,
                       std::vector<Bytes>* results) {
    Placed call;
    if (!place(memory_, c, call)) return results != nullptr ? "larger than the memory of this tool" : "";
    call.context.pool = pool;
    Status status = Status::kOk;
    bool too_large = false;
    const auto body = [&] {
      const int inputs = static_cast<int>(call.in.size());
      const auto aligned = [&](uint64_t wanted) {  // so that it starts at 64 bytes
        uint8_t* block = memory_.place(static_cast<int>(call.blocks.size()),
                                       wanted + 63 < wanted ? wanted : (wanted + 63) / 64 * 64);
        if (block != nullptr) call.blocks.push_back(block);
        return block;
      };
      if (prepared) {
        void* block = aligned(kernel.prepare(call.in.data(), inputs, call.out.data(), c.attrs.data(), nullptr));
        if ((too_large = block == nullptr)) return;
        kernel.prepare(call.in.data(), inputs, call.out.data(), c.attrs.data(), block);
        call.context.prepared = block;
      }
      if (kernel.scratch != nullptr) {
        call.context.scratch =
            aligned(kernel.scratch(call.in.data(), inputs, call.out.data(), c.attrs.data(), call.context.prepared));
        if ((too_large = call.context.scratch == nullptr)) return;
      }
      status = kernel.run(call.in.data(), inputs, call.out.data(), c.attrs.data(), call.context);
    };
    if (pool != nullptr) {
      body();  // faults cannot be survived on other threads; the run without any came first
    } else if (const int number = survives(body, kCallSeconds); number != 0) {
      return number == kTimeIsUp ? "still running after " + std::to_string(kCallSeconds) + " s"
                                 : "left its tensors (signal " + std::to_string(number) + ")";
    }
    for (size_t i = 0; i < call.blocks.size(); ++i) {
      if (!memory_.intact(static_cast<int>(i), call.blocks[i])) return "wrote outside of a tensor";
    }
    if (results == nullptr) return "";
    if (too_large) return "wants more scratch than this tool has";
    if (status != Status::kOk) return "status " + std::to_string(static_cast<int>(status));
    return collect(c, call, *results);
  }

  // Copies the results out, and sees that the inputs are what they were.
  static std::string collect(const Case& c, const Placed& call, std::vector<Bytes>& results) {
    for (size_t i = static_cast<size_t>(c.op->updates); i < call.in.size(); ++i) {
      const Bytes& was = c.in[i].bytes;
      if (!was.empty() && std::memcmp(call.in[i].data, was.data(), was.size()) != 0) {
        return "changed input " + std::to_string(i);
      }
    }
    results.clear();
    for (const Tensor& t : call.out) results.emplace_back(t.as<uint8_t>(), t.as<uint8_t>() + t.size_bytes());
    return "";
  }

  void check_kernel(const Case& c, const Kernel& kernel) {
    std::vector<Bytes> alone, threaded;
    std::string failure = run(c, kernel, nullptr, false, &alone);
    for (size_t i = 0; i < alone.size() && failure.empty(); ++i) {
      failure = compare(alone[i], c.want[i], c.tolerance + (rounds(kernel) ? kOfHalves : 0.0f));
      if (!failure.empty()) failure = "result " + std::to_string(i) + ": " + failure;
    }
    for (ThreadPool* pool : {one_, three_}) {
      if (!failure.empty()) break;
      failure = run(c, kernel, pool, false, &threaded);
      if (failure.empty() && threaded != alone) {
        failure = "other bits on " + std::to_string(pool->threads()) + " threads";
      }
    }
    if (failure.empty() && kernel.prepare != nullptr) {
      failure = run(c, kernel, nullptr, true, &threaded);
      if (failure.empty() && threaded != alone) failure = "other bits with what it prepared";
    }
    if (failure.empty() && kernel.halves) failure = check_halves(c, kernel);
    record(c, word_of(kernel.dtype), kernel.isa, failure);
  }

  // Whether its arithmetic is that of float16 where its weight is.
  static bool rounds(const Kernel& kernel) { return std::strcmp(kernel.isa, "fp16") == 0; }

  // A weight in float16 must lead to the results of the same numbers in float32, on any number of threads, prepared or
  // not.
  std::string check_halves(const Case& c, const Kernel& kernel) {
    std::vector<Bytes> want, first, got;
    const Case stored = with_halves(c, true);
    std::string failure = run(with_halves(c, false), kernel, nullptr, false, &want);
    if (failure.empty()) failure = run(stored, kernel, nullptr, false, &first);
    if (failure.empty() && rounds(kernel)) {
      CaseTensor near = c.want[0];
      near.bytes = want[0];
      failure = compare(first[0], near, kOfHalves);
    } else if (failure.empty() && first != want) {
      failure = "other bits from a weight in float16";
    }
    for (const bool prepared : {false, true}) {
      if (failure.empty()) failure = run(stored, kernel, prepared ? nullptr : three_, prepared, &got);
      if (failure.empty() && got != first) failure = "a weight in float16: other bits prepared or on threads";
    }
    return failure;
  }

  static std::string compare(const Bytes& got, const CaseTensor& want, float tolerance) {
    if (want.dtype != DType::f32) {
      const auto differs = std::mismatch(got.begin(), got.end(), want.bytes.begin());
      if (differs.first == got.end()) return "";
      const size_t element = static_cast<size_t>(differs.first - got.begin()) / size_of(want.dtype);
      return "element " + std::to_string(element) + " differs, its first such byte is " +
             std::to_string(*differs.first) + ", want " + std::to_string(*differs.second);
    }
    std::vector<float> a(got.size() / 4), b(got.size() / 4);
    if (!got.empty()) std::memcpy(a.data(), got.data(), got.size());
    if (!got.empty()) std::memcpy(b.data(), want.bytes.data(), got.size());
    float largest = 1e-3f;
    for (float x : b) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool same = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
      if (same || std::abs(a[i] - b[i]) <= tolerance * largest) continue;
      char text[96];
      std::snprintf(text, sizeof text, "element %zu is %.8g, want %.8g", i, static_cast<double>(a[i]),
                    static_cast<double>(b[i]));
      return text;
    }
    return "";
  }

  // The operator's CHECK against the sample and against many damaged copies of it.
  void check_refusals(const Case& c) {
    std::string failure;
    if (!accepts(c, failure) && failure.empty()) failure = "CHECK refuses the sample";
    if (failure.empty()) failure = check_results(c);
    if (failure.empty()) failure = check_damaged(c);
    record(c, "-", "check", failure);
  }

  // A result that is too large, or of another type, must be refused.
  std::string check_results(const Case& c) {
    std::string failure;
    for (size_t i = 0; i < c.want.size(); ++i) {
      Case damaged = c;
      damaged.want[i].dtype = c.want[i].dtype == DType::i8 ? DType::f32 : DType::i8;
      const std::string what = "CHECK takes result " + std::to_string(i);
      if (accepts(damaged, failure)) return what + " of another type";
      for (int axis = 0; axis < c.want[i].shape.size && failure.empty(); ++axis) {
        damaged = c;
        ++damaged.want[i].shape.data[axis];
        if (accepts(damaged, failure) && !stretches(c, i, axis)) {
          return what + " with a larger axis " + std::to_string(axis);
        }
      }
    }
    return failure;
  }

  // Whether any size is legal there by the numpy rule: no input has more than one element along it.
  static bool stretches(const Case& c, size_t result, int axis) {
    const int from_end = c.want[result].shape.size - axis;
    return std::all_of(c.in.begin(), c.in.end(), [&](const CaseTensor& t) {
      return t.shape.size < from_end || t.shape.data[t.shape.size - from_end] == 1;
    });
  }

  // Other damage may be refused or be harmless.
  std::string check_damaged(const Case& c) {
    std::string failure;
    const auto trial = [&](const std::string& what, const std::function<void(Case&)>& damage) {
      if (!failure.empty()) return;
      Case damaged = c;
      damage(damaged);
      const bool taken = accepts(damaged, failure);
      for (const char* isa : kIsas) {
        const Kernel* kernel = taken && failure.empty() && wanted(isa) ? kernel_for(damaged, isa) : nullptr;
        if (kernel != nullptr) failure = run(damaged, *kernel, nullptr, false, nullptr);
        if (kernel != nullptr && failure.empty() && kernel->prepare != nullptr) {
          failure = run(damaged, *kernel, nullptr, true, nullptr);
        }
        if (kernel != nullptr && failure.empty() && kernel->halves) {
          failure = run(with_halves(damaged, true), *kernel, nullptr, false, nullptr);
        }
        if (!failure.empty() && kernel != nullptr) failure = std::string(isa) + " kernel " + failure;
      }
      if (!failure.empty()) failure = "with " + what + ": " + failure;
    };
    for (size_t i = 0; i < c.in.size(); ++i) damage_input(c, i, trial);
    damage_attrs(c, trial);
    return failure;
  }

  GuardedMemory& memory_;
  const char* only_isa_;
  ThreadPool* one_;
  ThreadPool* three_;
  std::map<std::string, Score> scores_;  // "operator type isa"
};

// The pool's threads must leave the alarm to the thread that a kernel runs on.
ThreadPool* create_pool(int threads) {
  return without_alarm([=] { return ThreadPool::create(threads); });
}

int fail(const char* what, const char* which = "") {
  std::fprintf(stderr, "check_kernels: %s%s\n", which, what);
  return 2;
}

int check_file(const char* path, const char* isa, bool by_operator) {
  Bytes file;
  if (!read_file(path, file)) return fail(": cannot be read", path);
  GuardedMemory* memory = GuardedMemory::create();
  ThreadPool *one = create_pool(1), *three = create_pool(3);
  if (memory == nullptr || one == nullptr || three == nullptr) return fail("no memory");
  install_guard();
  Checker checker(*memory, isa, one, three);
  CaseReader reader(file);
  for (int32_t n = reader.header(); n > 0 && reader.ok(); --n) {
    const Case c = reader.next();
    if (reader.ok()) checker.check(c);
  }
  ThreadPool::destroy(three);
  ThreadPool::destroy(one);
  if (!reader.ok() || !reader.at_end()) return fail(": damaged, or written from another operator table", path);
  if (by_operator) checker.print_scores();
  const Score total = checker.total();
  std::printf("%d passed, %d failed\n", total.passed, total.failed);
  return total.failed == 0 && total.passed > 0 ? 0 : 1;
}

}  // namespace
}  // namespace lite

int main(int argc, char** argv) {
  const char *path = nullptr, *isa = nullptr;
  bool by_operator = false, usage = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--isa") == 0 && i + 1 < argc) {
      isa = argv[++i];
    } else if (std::strcmp(argv[i], "--by-operator") == 0) {
      by_operator = true;
    } else {
      usage |= argv[i][0] == '-' || path != nullptr;
      path = argv[i];
    }
  }
  if (path == nullptr || usage)
    return lite::fail("CASES [--isa ref|avx2|avx512vnni|neon|...] [--by-operator]", "usage: ");
  return lite::check_file(path, isa, by_operator);
}
