/* Runs the first entry of a model of one input of a fixed size: run_model MODEL BACKEND THREADS INPUT OUTPUT.
   The input's bytes are those of the file INPUT, the first output's go to the file OUTPUT. Prints the bytes of weights
   and of what was packed of them, then for each node its operator, the instruction set of its kernel and how often it
   ran. */

#include <stdio.h>
#include <stdlib.h>

#include "lite/lite.h"

static void check(lite_status status, const lite_session* s) {
  if (status == LITE_OK) return;
  fprintf(stderr, "run_model: %s\n", lite_last_error(s));
  exit(1);
}

static void transfer(const char* path, const char* mode, void* data, size_t size) {
  FILE* file = fopen(path, mode);
  size_t done = file == NULL ? 0 : mode[0] == 'r' ? fread(data, 1, size, file) : fwrite(data, 1, size, file);
  if (done == size && fclose(file) == 0) return;
  fprintf(stderr, "run_model: %s: want %zu bytes\n", path, size);
  exit(1);
}

int main(int argc, char** argv) {
  char error[256];
  lite_options options = lite_default_options();
  lite_session* s;
  lite_tensor x, y;
  lite_memory memory;
  lite_graph graph;
  size_t size = sizeof(float);
  int32_t i;

  if (argc != 6) return fprintf(stderr, "usage: run_model MODEL BACKEND THREADS INPUT OUTPUT\n"), 2;
  options.backend = argv[2];
  options.threads = atoi(argv[3]);
  if (lite_open(argv[1], &options, &s, error, sizeof error) != LITE_OK)
    return fprintf(stderr, "run_model: %s\n", error), 1;
  check(lite_input(s, 0, 0, &x), s);
  for (i = 0; i < x.rank; ++i) size *= (size_t)x.shape[i];
  x.size_bytes = size;
  x.data = malloc(size);
  transfer(argv[4], "rb", x.data, size);
  check(lite_set_input(s, 0, 0, &x), s);
  check(lite_profile(s, 1), s);
  check(lite_run(s, 0), s);
  check(lite_output(s, 0, 0, &y), s);
  transfer(argv[5], "wb", y.data, y.size_bytes);
  check(lite_memory_info(s, 0, &memory), s);
  check(lite_graph_info(s, 0, 0, &graph), s);
  printf("%zu\n", memory.weight_bytes);
  for (i = 0; i < graph.node_count; ++i) {
    lite_node node;
    check(lite_graph_node(s, 0, 0, i, &node), s);
    printf("%s %s %lld\n", node.op, node.kernel, (long long)node.runs);
  }
  free(x.data);
  lite_close(s);
  return 0;
}
