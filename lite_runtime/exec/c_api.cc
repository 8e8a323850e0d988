// The C interface (include/lite/lite.h): numbers are checked here, everything else is the session's.

#include <algorithm>
#include <cstring>

#include "core/memory.h"
#include "exec/session.h"
#include "lite/lite.h"

using lite::Arena;
using lite::Array;
using lite::DType;
using lite::Entry;
using lite::Error;
using lite::Model;
using lite::Routine;
using lite::Session;
using lite::SessionOptions;
using lite::Status;
using lite::Tensor;

static_assert(LITE_CANCELLED == static_cast<int>(Status::kCancelled) && LITE_I16 == static_cast<int>(DType::i16) &&
                  LITE_MAX_RANK == lite::kMaxRank,
              "lite.h and the runtime agree");

struct lite_session {
  Session session;
  Error error;
};

namespace {

lite_status code_of(Status status) { return static_cast<lite_status>(status); }

bool below(int32_t number, size_t count) { return number >= 0 && static_cast<size_t>(number) < count; }

lite_status refuse(lite_session* s, const char* what, int32_t number, size_t count) {
  return code_of(s->error.set(Status::kBadArgument, "%s %d: there are %zu", what, number, count));
}

// The entry, loaded; null and an error otherwise.
Entry* entry_of(lite_session* s, int32_t number) {
  const size_t count = s->session.model().entries();
  if (below(number, count)) return s->session.entry(static_cast<uint32_t>(number), s->error);
  refuse(s, "entry", number, count);
  return nullptr;
}

// A graph of an entry, loaded; null and an error otherwise.
const Routine* graph_of(lite_session* s, int32_t entry, int32_t graph) {
  const Entry* e = entry_of(s, entry);
  if (e == nullptr) return nullptr;
  if (below(graph, e->graphs())) return &e->graph(static_cast<uint32_t>(graph));
  refuse(s, "graph", graph, e->graphs());
  return nullptr;
}

// Steps of control flow and on tapes have no kernel, nor any need of one.
const char* kernel_name(const lite::Step& step) {
  if (step.action > lite::Action::scalar) return "exec";
  return step.kernel != nullptr ? step.kernel->isa : "none";
}

void describe(const Tensor& from, const char* name, lite_tensor* to) {
  *to = {};
  to->name = name;
  to->data = from.data;
  to->size_bytes = from.size_bytes();
  to->dtype = static_cast<int32_t>(from.dtype);
  to->rank = from.rank();
  std::memcpy(to->shape, from.shape.data, sizeof to->shape);
}

// A tensor of an entry, whose sizes may not be known yet.
void describe_value(const Model& model, const Entry& entry, const Routine& graph, uint32_t id, const char* name,
                    lite_tensor* to) {
  describe(graph.tensor(id), name, to);
  if (id < model.weights()) return;
  to->size_bytes = lite::size_of(static_cast<DType>(to->dtype));
  for (int i = 0; i < to->rank; ++i) {
    if (!entry.sizes().word(graph.shape_words(id)[i], &to->shape[i])) to->shape[i] = -1;
    to->size_bytes *= to->shape[i] < 0 ? 0 : static_cast<size_t>(to->shape[i]);
  }
}

template <typename OpenModel>
lite_status open_session(const lite_options* given, lite_session** out, char* text, size_t text_size, OpenModel open) {
  const lite_options defaults = lite_default_options();
  const lite_options& o = given != nullptr ? *given : defaults;
  Error error;
  lite_session* s = nullptr;
  if (o.struct_size < sizeof defaults) {
    error.set(Status::kBadArgument, "lite_options: struct_size is %zu, want %zu", o.struct_size, sizeof defaults);
  } else if ((s = lite::create<lite_session>()) == nullptr) {
    error.set(Status::kOutOfMemory, "no memory for a session");
  } else {
    const lite::Limits limits{static_cast<size_t>(std::min<uint64_t>(o.most_memory, SIZE_MAX)), o.most_steps,
                              o.timeout_s, o.most_depth};
    const SessionOptions options{o.threads, o.backend, o.check_finite != 0, limits};
    if (open(s->session, options, error) != Status::kOk) {
      lite::destroy(s);
      s = nullptr;
    }
  }
  *out = s;
  if (s == nullptr && text != nullptr && text_size > 0) std::snprintf(text, text_size, "%s", error.text);
  return code_of(error.status);
}

// A run whose first output, one number, is the loss.
lite_status train_once(lite_session* s, int32_t entry, float* loss) {
  Entry* e = entry_of(s, entry);
  if (e == nullptr) return code_of(s->error.status);
  const Tensor* y = e->outputs() > 0 ? &e->tensor(e->output_id(0)) : nullptr;
  if (loss != nullptr && (y == nullptr || y->dtype != DType::f32 || y->rank() > 0)) {
    return code_of(
        s->error.set(Status::kBadArgument, "entry %.60s: its first output is no loss; want one f32", e->name()));
  }
  const Status status = s->session.run(*e, s->error);
  if (status == Status::kOk && loss != nullptr) *loss = *y->f32();
  return code_of(status);
}

template <typename NameOf>
int32_t find(uint32_t count, const char* wanted, NameOf name_of) {
  for (uint32_t i = 0; i < count; ++i) {
    if (std::strcmp(name_of(i), wanted) == 0) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

const char* lite_version(void) { return LITE_VERSION; }

const char* lite_dtype_name(int32_t dtype) {
  return dtype >= LITE_F32 && dtype <= LITE_I16 ? lite::name_of(static_cast<DType>(dtype)) : nullptr;
}

lite_options lite_default_options(void) { return {sizeof(lite_options), 2, 0, "auto", 0, 0, 0, 100000}; }

lite_status lite_open(const char* path, const lite_options* options, lite_session** session, char* error,
                      size_t error_size) {
  return open_session(options, session, error, error_size,
                      [&](Session& s, const SessionOptions& o, Error& e) { return s.open(path, o, e); });
}

lite_status lite_open_memory(const void* bytes, size_t size, const lite_options* options, lite_session** session,
                             char* error, size_t error_size) {
  return open_session(options, session, error, error_size,
                      [&](Session& s, const SessionOptions& o, Error& e) { return s.open_memory(bytes, size, o, e); });
}

void lite_close(lite_session* session) { lite::destroy(session); }

const char* lite_last_error(const lite_session* session) { return session->error.text; }

lite_model lite_model_info(const lite_session* s) {
  const Model& model = s->session.model();
  return {static_cast<int32_t>(model.entries()), static_cast<int32_t>(model.weights()),
          static_cast<int32_t>(model.symbols()), static_cast<int32_t>(lite::length(model.index().metadata()))};
}

const char* lite_entry_name(const lite_session* s, int32_t entry) {
  const Model& model = s->session.model();
  if (!below(entry, model.entries())) return "";
  return model.name(model.entry(static_cast<uint32_t>(entry)).name());
}

int32_t lite_find_entry(const lite_session* s, const char* name) { return s->session.model().find_entry(name); }

lite_status lite_entry_info(lite_session* s, int32_t entry, lite_entry* info) {
  const Entry* e = entry_of(s, entry);
  if (e == nullptr) return code_of(s->error.status);
  *info = {static_cast<int32_t>(e->inputs()), static_cast<int32_t>(e->outputs()), static_cast<int32_t>(e->graphs()),
           e->output_ids()};
  return LITE_OK;
}

int32_t lite_find_input(lite_session* s, int32_t entry, const char* name) {
  const Entry* e = entry_of(s, entry);
  return e != nullptr ? find(e->inputs(), name, [&](uint32_t i) { return e->input_name(i); }) : -1;
}

int32_t lite_find_output(lite_session* s, int32_t entry, const char* name) {
  const Entry* e = entry_of(s, entry);
  return e != nullptr ? find(e->outputs(), name, [&](uint32_t i) { return e->output_name(i); }) : -1;
}

lite_status lite_input(lite_session* s, int32_t entry, int32_t input, lite_tensor* tensor) {
  const Entry* e = entry_of(s, entry);
  if (e == nullptr) return code_of(s->error.status);
  if (!below(input, e->inputs())) return refuse(s, "input", input, e->inputs());
  const uint32_t id = s->session.model().weights() + static_cast<uint32_t>(input);
  describe_value(s->session.model(), *e, e->graph(0), id, e->input_name(static_cast<uint32_t>(input)), tensor);
  tensor->data = nullptr;
  return LITE_OK;
}

lite_status lite_output(lite_session* s, int32_t entry, int32_t output, lite_tensor* tensor) {
  const Entry* e = entry_of(s, entry);
  if (e == nullptr) return code_of(s->error.status);
  if (!below(output, e->outputs())) return refuse(s, "output", output, e->outputs());
  const uint32_t number = static_cast<uint32_t>(output);
  describe_value(s->session.model(), *e, e->graph(0), e->output_id(number), e->output_name(number), tensor);
  if (!s->session.holds_outputs_of(*e)) tensor->data = nullptr;
  return LITE_OK;
}

lite_status lite_size_text(lite_session* s, int32_t entry, int32_t id, int32_t axis, char* text, size_t text_size) {
  Entry* e = entry_of(s, entry);
  if (e == nullptr) return code_of(s->error.status);
  const size_t count = s->session.model().weights() + e->graph(0).values();
  if (!below(id, count)) return refuse(s, "tensor", id, count);
  const uint32_t number = static_cast<uint32_t>(id);
  const size_t rank = static_cast<size_t>(e->tensor(number).rank());
  if (!below(axis, rank)) return refuse(s, "axis", axis, rank);
  if (text_size > 0) s->session.model().size_text(e->shape_words(number)[axis], text, text_size);
  return LITE_OK;
}

lite_status lite_symbol_info(lite_session* s, int32_t symbol, lite_symbol* info) {
  const Model& model = s->session.model();
  if (!below(symbol, model.symbols())) return refuse(s, "free dimension", symbol, model.symbols());
  const auto& row = model.symbol(static_cast<uint32_t>(symbol));
  *info = {model.name(row.name()), row.low(), row.high()};
  return LITE_OK;
}

lite_status lite_metadata(lite_session* s, int32_t number, const char** key, const char** value) {
  const size_t count = lite::length(s->session.model().index().metadata());
  if (!below(number, count)) return refuse(s, "metadata", number, count);
  const auto* pair = s->session.model().index().metadata()->Get(static_cast<uint32_t>(number));
  *key = pair->key()->c_str();
  *value = pair->value()->c_str();
  return LITE_OK;
}

lite_status lite_set_input(lite_session* s, int32_t entry, int32_t input, const lite_tensor* given) {
  Entry* e = entry_of(s, entry);
  if (e == nullptr) return code_of(s->error.status);
  if (!below(input, e->inputs())) return refuse(s, "input", input, e->inputs());
  const char* name = e->input_name(static_cast<uint32_t>(input));
  Tensor tensor;
  bool good = lite::is_dtype(given->dtype) && given->rank >= 0 && given->rank <= LITE_MAX_RANK;
  int64_t elements = 1;
  for (int i = 0; good && i < given->rank; ++i) {
    good = given->shape[i] >= 0 && (elements *= std::max(given->shape[i], 1)) <= lite::kMaxElements;
    tensor.shape.data[i] = given->shape[i];
  }
  if (!good || (given->data == nullptr && elements > 0)) {
    return code_of(s->error.set(Status::kBadArgument, "input %.60s: not a tensor", name));
  }
  tensor.data = given->data;
  tensor.dtype = static_cast<DType>(given->dtype);
  tensor.shape.size = given->rank;
  const uint64_t size = static_cast<uint64_t>(tensor.elements()) * lite::size_of(tensor.dtype);
  if (given->size_bytes != size) {
    return code_of(s->error.set(Status::kBadArgument, "input %.60s: %zu bytes, want %llu", name, given->size_bytes,
                                static_cast<unsigned long long>(size)));
  }
  return code_of(e->set_input(static_cast<uint32_t>(input), tensor, s->error));
}

lite_status lite_run(lite_session* s, int32_t entry) {
  Entry* e = entry_of(s, entry);
  return code_of(e != nullptr ? s->session.run(*e, s->error) : s->error.status);
}

lite_status lite_train_run(lite_session* s, int32_t entry, int64_t steps, lite_feeder feed, void* context,
                           float* losses, int64_t* done) {
  int64_t step = 0;
  lite_status status = LITE_OK;
  for (; status == LITE_OK && step < steps; step += status == LITE_OK) {
    s->error = Error();
    int32_t chosen = entry;
    status = feed(context, s, step, &chosen);
    if (status == LITE_OK) status = train_once(s, chosen, losses != nullptr ? losses + step : nullptr);
  }
  if (done != nullptr) *done = step;
  if (status == LITE_OK) return status;
  const Error reason = s->error;
  const char* text = reason.status != Status::kOk ? reason.text : "the feeder ended the training";
  s->error.set(static_cast<Status>(status), "step %lld: %.220s", static_cast<long long>(step), text);
  return status;
}

void lite_cancel(lite_session* s) { s->session.cancel(); }

lite_status lite_resize(lite_session* s, const char* const* symbols, const int32_t* sizes, int32_t count) {
  const Model& model = s->session.model();
  Array<int32_t> wanted;
  if (!wanted.allocate(model.symbols())) return code_of(s->error.set(Status::kOutOfMemory, "no memory for sizes"));
  for (int32_t i = 0; i < count; ++i) {
    const int32_t k = find(model.symbols(), symbols[i], [&](uint32_t n) { return model.name(model.symbol(n).name()); });
    if (k < 0) {
      return code_of(s->error.set(Status::kBadArgument, "%.60s: no free dimension of this model", symbols[i]));
    }
    const auto& symbol = model.symbol(static_cast<uint32_t>(k));
    if (sizes[i] < symbol.low() || sizes[i] > symbol.high()) {
      return code_of(s->error.set(Status::kBadArgument, "%.60s = %d: want %d to %d", symbols[i], sizes[i], symbol.low(),
                                  symbol.high()));
    }
    wanted[static_cast<size_t>(k)] = sizes[i];
  }
  return code_of(s->session.resize(wanted, s->error));
}

lite_status lite_memory_info(lite_session* s, int32_t entry, lite_memory* memory) {
  Entry* e = entry_of(s, entry);
  if (e == nullptr || s->session.plan(*e, s->error) != Status::kOk) return code_of(s->error.status);
  *memory = {e->planned_size(), e->least_size(), e->peak_size(), s->session.prepared_size()};
  for (uint32_t id = 0; id < s->session.model().weights(); ++id) {
    memory->weight_bytes += s->session.weight(id).size_bytes();
  }
  return LITE_OK;
}

int32_t lite_find_weight(const lite_session* s, const char* name) {
  const Model& model = s->session.model();
  return find(model.weights(), name, [&](uint32_t id) { return model.name(model.weight(id).name()); });
}

lite_status lite_weight(lite_session* s, int32_t weight, lite_tensor* tensor, int32_t* kind) {
  const Model& model = s->session.model();
  if (!below(weight, model.weights())) return refuse(s, "weight", weight, model.weights());
  const uint32_t id = static_cast<uint32_t>(weight);
  describe(s->session.weight(id), model.name(model.weight(id).name()), tensor);
  if (kind != nullptr) *kind = model.weight(id).kind();
  return LITE_OK;
}

lite_status lite_set_weight(lite_session* s, int32_t weight, const void* bytes, size_t size) {
  const size_t count = s->session.model().weights();
  if (!below(weight, count)) return refuse(s, "weight", weight, count);
  return code_of(s->session.set_weight(static_cast<uint32_t>(weight), bytes, size, s->error));
}

lite_status lite_save(lite_session* s, const char* path) { return code_of(s->session.save(path, s->error)); }

lite_status lite_save_memory(lite_session* s, void** bytes, size_t* size) {
  Arena file;
  const Status status = s->session.save_memory(&file, s->error);
  *size = status == Status::kOk ? s->session.model().size() : 0;
  *bytes = file.release();
  return code_of(status);
}

void lite_free(void* bytes) { std::free(bytes); }

lite_status lite_profile(lite_session* s, int32_t on) {
  s->session.set_profile(on != 0);
  return LITE_OK;
}

lite_status lite_trace(lite_session* s, lite_event* events, int64_t capacity, int64_t* count) {
  static_assert(sizeof(lite_event) == sizeof(lite::Event), "lite.h and the runtime agree");
  if (events != nullptr && (count == nullptr || capacity < 0)) {
    return code_of(s->error.set(Status::kBadArgument, "a trace wants a count, and room of at least 0"));
  }
  if (count != nullptr) *count = 0;
  s->session.set_trace({reinterpret_cast<lite::Event*>(events), capacity, count});
  return LITE_OK;
}

lite_status lite_graph_info(lite_session* s, int32_t entry, int32_t graph, lite_graph* info) {
  const Routine* g = graph_of(s, entry, graph);
  if (g == nullptr) return code_of(s->error.status);
  *info = {g->part(), static_cast<int32_t>(g->steps().size()),
           static_cast<int32_t>(s->session.model().weights() + g->values())};
  return LITE_OK;
}

lite_status lite_graph_node(lite_session* s, int32_t entry, int32_t graph, int32_t node, lite_node* info) {
  const Routine* g = graph_of(s, entry, graph);
  if (g == nullptr) return code_of(s->error.status);
  if (!below(node, g->steps().size())) return refuse(s, "node", node, g->steps().size());
  const uint32_t number = static_cast<uint32_t>(node);
  const lite::Step& step = g->steps()[number];
  *info = {step.op->name, kernel_name(step), g->source(number),     step.ids,         step.ids + step.given,
           step.given,    step.results,      g->scratch_size(step), step.nanoseconds, step.runs};
  return LITE_OK;
}

lite_status lite_graph_value(lite_session* s, int32_t entry, int32_t graph, int32_t id, lite_tensor* tensor) {
  const Routine* g = graph_of(s, entry, graph);
  if (g == nullptr) return code_of(s->error.status);
  const size_t count = s->session.model().weights() + g->values();
  if (!below(id, count)) return refuse(s, "value", id, count);
  const uint32_t number = static_cast<uint32_t>(id);
  describe_value(s->session.model(), *entry_of(s, entry), *g, number, g->value_name(number), tensor);
  tensor->data = nullptr;
  return LITE_OK;
}
