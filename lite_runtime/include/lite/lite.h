/* The C interface of the runtime: open a model, run its entries, change and save its weights.

   Functions that can fail return a lite_status; the reason is then one line in lite_last_error(session), or in `error`
   where there is no session yet. Entries, inputs, outputs and weights are numbered from 0. Strings and the arrays that
   structs point to belong to the session and live as long as it does. A session must not be used from two threads at
   once; two sessions share nothing. */

#ifndef LITE_LITE_H_
#define LITE_LITE_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define LITE_API
#else
#define LITE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum lite_status {
  LITE_OK = 0,
  LITE_BAD_ARGUMENT = 1, /* an unknown name, a wrong shape or type */
  LITE_BAD_FILE = 2,     /* the model file is damaged, hostile or of another version */
  LITE_NO_KERNEL = 3,    /* no kernel for an operator and a type in this build */
  LITE_BAD_INDEX = 4,    /* data out of range: a label, a gather index */
  LITE_OUT_OF_MEMORY = 5,
  LITE_IO = 6,
  LITE_NOT_FINITE = 7, /* a NaN or an infinity, where `check_finite` is on */
  LITE_CANCELLED = 8   /* by lite_cancel, or at a limit of the session's options */
} lite_status;

typedef enum lite_dtype {
  LITE_F32 = 1,
  LITE_F16 = 2,
  LITE_I8 = 3,
  LITE_U8 = 4,
  LITE_I32 = 5,
  LITE_I64 = 6,
  LITE_BOOL = 7,
  LITE_F64 = 8,
  LITE_TAPE = 9, /* between nodes of control flow alone */
  LITE_I16 = 10
} lite_dtype;

typedef enum lite_weight_kind {
  LITE_CONSTANT = 0,
  LITE_TRAINABLE = 1,
  LITE_STATE = 2,
  LITE_FROZEN = 3
} lite_weight_kind;

enum { LITE_MAX_RANK = 8 };

typedef struct lite_session lite_session;

/* A dense, row-major tensor. */
typedef struct lite_tensor {
  const char* name;
  void* data;
  size_t size_bytes;
  int32_t dtype; /* lite_dtype */
  int32_t rank;
  int32_t shape[LITE_MAX_RANK]; /* -1: a size that is not known yet */
} lite_tensor;

typedef struct lite_options {
  size_t struct_size;   /* sizeof(lite_options), so that later versions can add fields */
  int32_t threads;      /* 1 to 256 */
  int32_t check_finite; /* 1: stop at the first input or result that holds a NaN or an infinity; keep weights */
  const char* backend;  /* "auto", or an instruction set: "ref", "avx2", "avxvnni", "avx512", "avx512vnni",
                           "neon", "dotprod", "i8mm", "fp16", "wasm"; what it lacks comes from a lower one. "fp16"
                           multiplies in float16 where weights are: results differ, and "auto" never takes it */
  uint64_t most_memory; /* bytes that a run may want for results, frames and tapes; 0: any number */
  int64_t most_steps;   /* nodes that a run may execute, those in turns of loops counted each time; 0: any number */
  double timeout_s;     /* of a run; 0: none. Looked at between nodes */
  int32_t most_depth;   /* sub-graphs that may run inside of each other, as recursion does */
} lite_options;

/* ---- Sessions ---- */

LITE_API const char* lite_version(void);
LITE_API const char* lite_dtype_name(int32_t dtype); /* "f32"; null for an unknown one */

/* Two threads, the best kernels that the processor runs, no limit but a depth of 100,000. */
LITE_API lite_options lite_default_options(void);

/* Opens a model. `options` may be null. On an error, *session is null and `error`, a buffer of `error_size` bytes or
   null, says why. The file is mapped and must not be changed while it is open; memory is copied. */
LITE_API lite_status lite_open(const char* path, const lite_options* options, lite_session** session, char* error,
                               size_t error_size);
LITE_API lite_status lite_open_memory(const void* bytes, size_t size, const lite_options* options,
                                      lite_session** session, char* error, size_t error_size);
LITE_API void lite_close(lite_session* session);

/* Why the last call that failed did so. */
LITE_API const char* lite_last_error(const lite_session* session);

/* ---- What a model holds ---- */

typedef struct lite_model {
  int32_t entry_count, weight_count, symbol_count, metadata_count;
} lite_model;

LITE_API lite_model lite_model_info(const lite_session* session);

LITE_API const char* lite_entry_name(const lite_session* session, int32_t entry); /* "": a sub-graph */
LITE_API int32_t lite_find_entry(const lite_session* session, const char* name);  /* -1: there is none */

typedef struct lite_entry {
  int32_t input_count, output_count;
  int32_t graph_count;       /* its own and those of its control flow, see lite_graph */
  const int32_t* output_ids; /* of the outputs, among the entry's tensors */
} lite_entry;

LITE_API lite_status lite_entry_info(lite_session* session, int32_t entry, lite_entry* info);
LITE_API int32_t lite_find_input(lite_session* session, int32_t entry, const char* name);
LITE_API int32_t lite_find_output(lite_session* session, int32_t entry, const char* name);

/* Name, type and shape of an input or an output, at the present sizes of the free dimensions. `data` is null for an
   input. For an output it is the result, if this entry was the last one to run: its bytes stay until the session runs
   or resizes again (those of an output that is an input of the entry are the caller's own). */
LITE_API lite_status lite_input(lite_session* session, int32_t entry, int32_t input, lite_tensor* tensor);
LITE_API lite_status lite_output(lite_session* session, int32_t entry, int32_t output, lite_tensor* tensor);

/* One size of a tensor of an entry as the model writes it: "8", "batch", "2*batch + 1". Tensors have ids: weights come
   first, then inputs, from the number of weights on, then results. */
LITE_API lite_status lite_size_text(lite_session* session, int32_t entry, int32_t id, int32_t axis, char* text,
                                    size_t text_size);

typedef struct lite_symbol {
  const char* name;
  int32_t low, high; /* the sizes that the model was made for */
} lite_symbol;

LITE_API lite_status lite_symbol_info(lite_session* session, int32_t symbol, lite_symbol* info);

LITE_API lite_status lite_metadata(lite_session* session, int32_t number, const char** key, const char** value);

/* ---- Running ---- */

/* What the next run of an entry reads as an input. The bytes are not copied: they must stay until the end of that run,
   which forgets all inputs, also where it fails. Sizes of free dimensions follow from the shapes of the inputs. */
LITE_API lite_status lite_set_input(lite_session* session, int32_t entry, int32_t input, const lite_tensor* tensor);
LITE_API lite_status lite_run(lite_session* session, int32_t entry);

/* Sets the inputs of a step of lite_train_run with lite_set_input; their bytes must stay until it is called again or
   the training ends. `*entry` is the entry that runs in this step, and may be changed: to one that adds gradients up,
   and after some of those to one that applies their sum. May run other entries before it sets inputs. Any status but
   LITE_OK ends the training. */
typedef lite_status (*lite_feeder)(void* context, lite_session* session, int64_t step, int32_t* entry);

/* Runs an entry up to `steps` times in one call, each time on inputs that `feed` sets. `losses`, null or room for
   `steps` numbers, gets the first output of each run, one f32. `done`, which may be null, is how many steps were
   finished. The first step that fails ends it with that status, and lite_last_error names the step; so does
   lite_cancel. Weights then are those after the last finished step, but for updates of the failed one that came before
   the failure, which `check_finite` takes back. */
LITE_API lite_status lite_train_run(lite_session* session, int32_t entry, int64_t steps, lite_feeder feed,
                                    void* context, float* losses, int64_t* done);

/* Stops the run that is in progress or, where there is none, the next one, with LITE_CANCELLED. The one function that
   another thread may call while the session works. */
LITE_API void lite_cancel(lite_session* session);

/* Gives free dimensions of all entries other sizes, before inputs do. */
LITE_API lite_status lite_resize(lite_session* session, const char* const* symbols, const int32_t* sizes,
                                 int32_t count);

typedef struct lite_memory {
  size_t planned_bytes; /* of the arena that a run of the entry wants: results and scratch */
  size_t least_bytes;   /* no plan could do with less */
  size_t peak_bytes;    /* that the last run of the entry took at most, with sub-graphs and tapes; 0: there was none */
  size_t weight_bytes;  /* of the weights, all entries together, and of copies that kernels packed for themselves */
} lite_memory;

LITE_API lite_status lite_memory_info(lite_session* session, int32_t entry, lite_memory* memory);

/* ---- Weights ---- */

LITE_API int32_t lite_find_weight(const lite_session* session, const char* name);
/* `data` is where the weight lies; it must not be written. `kind` may be null. */
LITE_API lite_status lite_weight(lite_session* session, int32_t weight, lite_tensor* tensor, int32_t* kind);
/* Only trainable weights and state can be set; `size` is the weight's own. */
LITE_API lite_status lite_set_weight(lite_session* session, int32_t weight, const void* bytes, size_t size);

/* The model's file with the weights of today, without its signature: to a path, where a reader sees the old file or
   the new one, whole; or to memory, which lite_free gives back. */
LITE_API lite_status lite_save(lite_session* session, const char* path);
LITE_API lite_status lite_save_memory(lite_session* session, void** bytes, size_t* size);
LITE_API void lite_free(void* bytes);

/* ---- Looking inside ---- */

typedef struct lite_node {
  const char* op;
  const char* kernel;    /* its kernel's instruction set, named as in lite_options; "none" where there is none */
  const char* source;    /* where it comes from */
  const int32_t* inputs; /* ids: a number below the count of weights is a weight, -1 is left out */
  const int32_t* outputs;
  int32_t input_count, output_count;
  size_t scratch_bytes; /* of memory that its kernel works in, at the present sizes */
  int64_t nanoseconds;  /* spent in it since lite_profile, with all that it runs */
  int64_t runs;         /* how often it ran since then: for each example of a batch, where it takes one at a time */
} lite_node;

/* Turns measuring on or off and sets all times to zero. */
LITE_API lite_status lite_profile(lite_session* session, int32_t on);

/* When a node ran, in nanoseconds of a clock that never goes back. */
typedef struct lite_event {
  int64_t start_ns, end_ns;
  int32_t entry, graph, node;
  int32_t depth; /* how many sub-graphs it was in */
} lite_event;

/* From now on each node that ends is written to `events`, which has room for `capacity` and must stay until this is
   called again; null ends it. `*count` is set to 0 and goes up with every node, also where there is no room left.
   A node that takes the examples of a batch one at a time ends once for each. */
LITE_API lite_status lite_trace(lite_session* session, lite_event* events, int64_t capacity, int64_t* count);

/* The graphs of an entry: number 0 is its own, the others are those that its control flow runs, one for each role. */
typedef struct lite_graph {
  const char* name; /* the operator's for it: "then", "otherwise", "condition", "body"; "" for number 0 */
  int32_t node_count;
  int32_t value_count; /* ids of its tensors are below it, weights among them */
} lite_graph;

LITE_API lite_status lite_graph_info(lite_session* session, int32_t entry, int32_t graph, lite_graph* info);
LITE_API lite_status lite_graph_node(lite_session* session, int32_t entry, int32_t graph, int32_t node,
                                     lite_node* info);
/* Name, type and shape of any tensor of a graph by its id; `data` is null. */
LITE_API lite_status lite_graph_value(lite_session* session, int32_t entry, int32_t graph, int32_t id,
                                      lite_tensor* tensor);

#ifdef __cplusplus
}
#endif

#endif
