// The Python module `lite_runtime._core`: the C interface, call by call. It decides nothing.

#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lite/lite.h"
#include "python/arrays.h"

namespace nb = nanobind;
using lite::python::Array;
using lite::python::Result;

namespace {

struct LiteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What an entry takes or gives: name, sizes as the model writes them, element type.
using Info = std::tuple<std::string, std::vector<std::string>, std::string>;

class Session {
 public:
  Session(const std::string& path, const lite_options& options) {
    char error[256] = "";
    if (lite_open(path.c_str(), &options, &session_, error, sizeof error) != LITE_OK) throw LiteError(error);
  }
  Session(const nb::bytes& file, const lite_options& options) {
    char error[256] = "";
    if (lite_open_memory(file.data(), file.size(), &options, &session_, error, sizeof error) != LITE_OK) {
      throw LiteError(error);
    }
  }
  Session(const Session&) = delete;
  ~Session() { lite_close(session_); }

  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (int32_t i = 0; i < lite_model_info(session_).entry_count; ++i) {
      names.emplace_back(lite_entry_name(session_, i));
    }
    return names;
  }

  std::vector<Info> inputs(int32_t entry) {
    const Turn turn(mutex_);
    const int32_t first = lite_model_info(session_).weight_count;
    return infos(entry, info_of(entry).input_count, lite_input, [first](int32_t i) { return first + i; });
  }
  std::vector<Info> outputs(int32_t entry) {
    const Turn turn(mutex_);
    const lite_entry info = info_of(entry);
    return infos(entry, info.output_count, lite_output, [&info](int32_t i) { return info.output_ids[i]; });
  }

  // Runs an entry once a step, on what `feed(step)` gives: the number of an entry and its arrays in order, or nothing,
  // which ends the training. The losses of all steps that were finished.
  std::vector<float> train_run(int32_t entry, int64_t steps, const nb::callable& feed) {
    Feeder feeder{*this, feed, {}, nullptr, false};
    std::vector<float> losses(static_cast<size_t>(std::max<int64_t>(steps, 0)));
    int64_t done = 0;
    lite_status status;
    std::string error;
    {
      nb::gil_scoped_release others_run;
      const std::lock_guard<std::recursive_mutex> one_at_a_time(mutex_);
      status = lite_train_run(session_, entry, steps, Feeder::call, &feeder, losses.data(), &done);
      error = lite_last_error(session_);
    }
    if (feeder.problem) std::rethrow_exception(feeder.problem);
    if (status != LITE_OK && !feeder.ended) throw LiteError(error);
    losses.resize(static_cast<size_t>(done));
    return losses;
  }

  // Runs an entry on arrays in the order of its inputs; gives its outputs in order. Other Python threads go on.
  nb::list run(int32_t entry, const std::vector<Array>& arrays) {
    std::vector<Result> results;
    {
      nb::gil_scoped_release others_run;
      const std::lock_guard<std::recursive_mutex> one_at_a_time(mutex_);
      for (size_t i = 0; i < arrays.size(); ++i) set_input(entry, static_cast<int32_t>(i), arrays[i]);
      check(lite_run(session_, entry));
      for (int32_t i = 0; i < info_of(entry).output_count; ++i) {
        lite_tensor tensor;
        check(lite_output(session_, entry, i, &tensor));
        results.emplace_back(tensor);
      }
    }
    nb::list arrays_out;
    for (Result& result : results) arrays_out.append(result.array());
    return arrays_out;
  }

  void resize(const std::vector<std::pair<std::string, int32_t>>& sizes) {
    const Turn turn(mutex_);
    std::vector<const char*> names;
    std::vector<int32_t> values;
    for (const auto& [name, size] : sizes) {
      names.push_back(name.c_str());
      values.push_back(size);
    }
    check(lite_resize(session_, names.data(), values.data(), static_cast<int32_t>(names.size())));
  }

  // Name, lowest and highest size of each free dimension.
  std::vector<std::tuple<std::string, int32_t, int32_t>> symbols() {
    std::vector<std::tuple<std::string, int32_t, int32_t>> rows;
    for (int32_t i = 0; i < lite_model_info(session_).symbol_count; ++i) {
      lite_symbol info;
      check(lite_symbol_info(session_, i, &info));
      rows.emplace_back(info.name, info.low, info.high);
    }
    return rows;
  }

  // Planned bytes, fewest bytes of any plan, bytes that the last run took at most, bytes of weights.
  std::tuple<size_t, size_t, size_t, size_t> memory(int32_t entry) {
    const Turn turn(mutex_);
    lite_memory memory;
    check(lite_memory_info(session_, entry, &memory));
    return {memory.planned_bytes, memory.least_bytes, memory.peak_bytes, memory.weight_bytes};
  }

  // Name, kind, element type and shape of each weight.
  std::vector<std::tuple<std::string, int32_t, std::string, std::vector<int32_t>>> weights() {
    std::vector<std::tuple<std::string, int32_t, std::string, std::vector<int32_t>>> rows;
    for (int32_t i = 0; i < lite_model_info(session_).weight_count; ++i) {
      lite_tensor tensor;
      int32_t kind;
      check(lite_weight(session_, i, &tensor, &kind));
      rows.emplace_back(tensor.name, kind, lite_dtype_name(tensor.dtype), shape_of(tensor));
    }
    return rows;
  }

  nb::object weight(int32_t number) {
    const Turn turn(mutex_);
    lite_tensor tensor;
    check(lite_weight(session_, number, &tensor, nullptr));
    return Result(tensor).array();
  }

  void set_weight(int32_t number, const Array& array) {
    const Turn turn(mutex_);
    check(lite_set_weight(session_, number, array.data(), array.nbytes()));
  }

  void save(const std::string& path) {
    nb::gil_scoped_release others_run;
    const std::lock_guard<std::recursive_mutex> one_at_a_time(mutex_);
    check(lite_save(session_, path.c_str()));
  }

  nb::bytes save_memory() {
    const Turn turn(mutex_);
    void* data = nullptr;
    size_t size = 0;
    const lite_status status = lite_save_memory(session_, &data, &size);
    const std::unique_ptr<void, decltype(&lite_free)> file(data, lite_free);
    check(status);
    return nb::bytes(data, size);
  }

  void profile(bool on) {
    const Turn turn(mutex_);
    check(lite_profile(session_, on));
  }

  // Writes what runs do from now on, up to `capacity` nodes; 0: no more. What was written so far: start and end in
  // nanoseconds, entry, graph and node of each node that ended; and how many there was no room for.
  using Event = std::tuple<int64_t, int64_t, int32_t, int32_t, int32_t>;
  std::pair<std::vector<Event>, int64_t> trace(size_t capacity) {
    const Turn turn(mutex_);
    std::vector<Event> rows;
    const int64_t count = event_count_, kept = std::min<int64_t>(count, static_cast<int64_t>(events_.size()));
    for (int64_t i = 0; i < kept; ++i) {
      const lite_event& e = events_[static_cast<size_t>(i)];
      rows.emplace_back(e.start_ns, e.end_ns, e.entry, e.graph, e.node);
    }
    check(lite_trace(session_, nullptr, 0, &event_count_));
    events_.assign(capacity, {});
    if (capacity > 0) check(lite_trace(session_, events_.data(), static_cast<int64_t>(capacity), &event_count_));
    return {rows, count - kept};
  }

  // The names of an entry's graphs: its own first, which has none.
  std::vector<std::string> graphs(int32_t entry) {
    const Turn turn(mutex_);
    std::vector<std::string> names;
    for (int32_t i = 0; i < info_of(entry).graph_count; ++i) {
      names.emplace_back(graph(entry, i).name);
    }
    return names;
  }

  // Operator, kernel, source, ids of inputs and outputs, bytes of scratch, nanoseconds and number of runs of each node
  // of a graph.
  using Node = std::tuple<std::string, std::string, std::string, std::vector<int32_t>, std::vector<int32_t>, size_t,
                          int64_t, int64_t>;
  std::vector<Node> nodes(int32_t entry, int32_t number) {
    const Turn turn(mutex_);
    std::vector<Node> rows;
    for (int32_t i = 0; i < graph(entry, number).node_count; ++i) {
      lite_node n;
      check(lite_graph_node(session_, entry, number, i, &n));
      rows.emplace_back(n.op, n.kernel, n.source, std::vector<int32_t>(n.inputs, n.inputs + n.input_count),
                        std::vector<int32_t>(n.outputs, n.outputs + n.output_count), n.scratch_bytes, n.nanoseconds,
                        n.runs);
    }
    return rows;
  }

  // Name, element type, shape and bytes of each tensor of a graph of an entry, by id.
  std::vector<std::tuple<std::string, std::string, std::vector<int32_t>, size_t>> values(int32_t entry,
                                                                                         int32_t number) {
    const Turn turn(mutex_);
    std::vector<std::tuple<std::string, std::string, std::vector<int32_t>, size_t>> rows;
    lite_tensor tensor;
    for (int32_t i = 0; i < graph(entry, number).value_count; ++i) {
      check(lite_graph_value(session_, entry, number, i, &tensor));
      rows.emplace_back(tensor.name, lite_dtype_name(tensor.dtype), shape_of(tensor), tensor.size_bytes);
    }
    return rows;
  }

  // Stops a run; it does not wait for it.
  void cancel() { lite_cancel(session_); }

  std::vector<int32_t> output_ids(int32_t entry) {
    const Turn turn(mutex_);
    const lite_entry info = info_of(entry);
    return {info.output_ids, info.output_ids + info.output_count};
  }

  std::vector<std::pair<std::string, std::string>> metadata() {
    std::vector<std::pair<std::string, std::string>> rows;
    for (int32_t i = 0; i < lite_model_info(session_).metadata_count; ++i) {
      const char *key, *value;
      check(lite_metadata(session_, i, &key, &value));
      rows.emplace_back(key, value);
    }
    return rows;
  }

 private:
  // A session does one thing at a time, whichever Python thread asks; the one that trains may ask again while it feeds.
  // Who waits for the session lets other threads have the interpreter, which a feeder wants.
  class Turn {
   public:
    explicit Turn(std::recursive_mutex& mutex) : lock_(mutex, std::try_to_lock) {
      if (lock_.owns_lock()) return;
      nb::gil_scoped_release others_run;
      lock_.lock();
    }

   private:
    std::unique_lock<std::recursive_mutex> lock_;
  };

  // The Python side of a training: what it gave last is kept until the run has read it.
  struct Feeder {
    Session& session;
    const nb::callable& feed;
    std::vector<Array> arrays;
    std::exception_ptr problem;
    bool ended;

    static lite_status call(void* context, lite_session*, int64_t step, int32_t* entry) {
      Feeder& self = *static_cast<Feeder*>(context);
      nb::gil_scoped_acquire interpreter;
      try {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        const nb::object given = self.feed(step);
        self.ended = given.is_none();
        if (self.ended) return LITE_CANCELLED;
        const auto [number, arrays] = nb::cast<std::pair<int32_t, std::vector<Array>>>(given);
        *entry = number;
        self.arrays = arrays;
        for (size_t i = 0; i < arrays.size(); ++i) self.session.set_input(number, static_cast<int32_t>(i), arrays[i]);
        return LITE_OK;
      } catch (...) {  // must not pass through the runtime
        self.problem = std::current_exception();
        return LITE_CANCELLED;
      }
    }
  };

  void check(lite_status status) const {
    if (status != LITE_OK) throw LiteError(lite_last_error(session_));
  }

  static std::vector<int32_t> shape_of(const lite_tensor& t) { return {t.shape, t.shape + t.rank}; }

  lite_entry info_of(int32_t entry) {
    lite_entry info;
    check(lite_entry_info(session_, entry, &info));
    return info;
  }

  lite_graph graph(int32_t entry, int32_t number) {
    lite_graph info;
    check(lite_graph_info(session_, entry, number, &info));
    return info;
  }

  template <typename Describe, typename IdOf>
  std::vector<Info> infos(int32_t entry, int32_t count, Describe describe, IdOf id_of) {
    std::vector<Info> rows;
    for (int32_t i = 0; i < count; ++i) {
      lite_tensor tensor;
      check(describe(session_, entry, i, &tensor));
      std::vector<std::string> sizes;
      for (int32_t axis = 0; axis < tensor.rank; ++axis) {
        char text[1024];
        check(lite_size_text(session_, entry, id_of(i), axis, text, sizeof text));
        sizes.emplace_back(text);
      }
      rows.emplace_back(tensor.name, sizes, lite_dtype_name(tensor.dtype));
    }
    return rows;
  }

  void set_input(int32_t entry, int32_t number, const Array& array) {
    const lite_tensor tensor = lite::python::tensor_of(array);
    check(lite_set_input(session_, entry, number, &tensor));
  }

  lite_session* session_ = nullptr;
  std::recursive_mutex mutex_;
  std::vector<lite_event> events_;
  int64_t event_count_ = 0;
};

template <typename Source>
void open(Session* self, const Source& source, int32_t threads, const std::string& backend, bool check_finite,
          uint64_t most_memory, int64_t most_steps, double timeout_s, int32_t most_depth) {
  lite_options options = lite_default_options();
  options.threads = threads;
  options.backend = backend.c_str();
  options.check_finite = check_finite;
  options.most_memory = most_memory;
  options.most_steps = most_steps;
  options.timeout_s = timeout_s;
  options.most_depth = most_depth;
  new (self) Session(source, options);
}

}  // namespace

NB_MODULE(_core, m) {
  // A session that a cache or a thread still holds when the interpreter ends is no leak of ours.
  nb::set_leak_warnings(false);
  m.attr("__version__") = lite_version();
  nb::exception<LiteError> error(m, "LiteError", PyExc_ValueError);
  error.attr("__module__") = "lite_runtime";
  nb::class_<Session>(m, "Session")
      .def("__init__", &open<std::string>)
      .def("__init__", &open<nb::bytes>)
      .def("entries", &Session::entries)
      .def("inputs", &Session::inputs)
      .def("outputs", &Session::outputs)
      .def("run", &Session::run)
      .def("train_run", &Session::train_run)
      .def("resize", &Session::resize)
      .def("symbols", &Session::symbols)
      .def("memory", &Session::memory)
      .def("weights", &Session::weights)
      .def("weight", &Session::weight)
      .def("set_weight", &Session::set_weight)
      .def("save", &Session::save)
      .def("save_memory", &Session::save_memory)
      .def("profile", &Session::profile)
      .def("trace", &Session::trace)
      .def("cancel", &Session::cancel)
      .def("graphs", &Session::graphs)
      .def("nodes", &Session::nodes)
      .def("values", &Session::values)
      .def("output_ids", &Session::output_ids)
      .def("metadata", &Session::metadata);
}
