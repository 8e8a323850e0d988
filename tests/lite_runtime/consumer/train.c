/* Trains a linear model y = x w by the C interface, saves it, opens it again: train_c MODEL SAVED.
   The model: infer x[batch,2] -> y[batch]; train x, target[batch], lr -> loss. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lite/lite.h"

static void fail(const char* place, const char* why) {
  fprintf(stderr, "%s: %s\n", place, why);
  exit(1);
}

static void set_input(lite_session* s, int32_t entry, const char* name, float* data, int32_t rank, int32_t rows,
                      int32_t columns) {
  lite_tensor tensor = {0};
  tensor.data = data;
  tensor.dtype = LITE_F32;
  tensor.rank = rank;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.size_bytes = sizeof(float) * (size_t)rows * (size_t)columns;
  if (lite_set_input(s, entry, lite_find_input(s, entry, name), &tensor) != LITE_OK) fail(name, lite_last_error(s));
}

static float first_output(lite_session* s, int32_t entry) {
  lite_tensor tensor;
  if (lite_run(s, entry) != LITE_OK) fail("run", lite_last_error(s));
  if (lite_output(s, entry, 0, &tensor) != LITE_OK) fail("output", lite_last_error(s));
  return *(float*)tensor.data;
}

int main(int argc, char** argv) {
  char error[256];
  lite_session *s, *again;
  float x[4][2] = {{1, 0}, {0, 1}, {1, 1}, {2, 1}}, target[4] = {3, -1, 2, 5}, lr = 0.1f, one[1][2] = {{10, 1}};
  float loss = 0, y, y_again;
  int32_t infer, train;
  int step;

  if (argc != 3) fail("train_c", "want MODEL SAVED");
  if (lite_open(argv[1], NULL, &s, error, sizeof error) != LITE_OK) fail(argv[1], error);
  infer = lite_find_entry(s, "infer");
  train = lite_find_entry(s, "train");
  for (step = 0; step < 200; ++step) {
    set_input(s, train, "x", x[0], 2, 4, 2);
    set_input(s, train, "target", target, 1, 4, 1);
    set_input(s, train, "lr", &lr, 0, 1, 1);
    loss = first_output(s, train);
  }
  set_input(s, infer, "x", one[0], 2, 1, 2);
  y = first_output(s, infer);
  if (lite_save(s, argv[2]) != LITE_OK) fail(argv[2], lite_last_error(s));
  if (lite_open(argv[2], NULL, &again, error, sizeof error) != LITE_OK) fail(argv[2], error);
  set_input(again, infer, "x", one[0], 2, 1, 2);
  y_again = first_output(again, infer);
  if (memcmp(&y, &y_again, sizeof y) != 0) fail("saved model", "gives another result");
  if (lite_run(s, infer) != LITE_BAD_ARGUMENT) fail("run without inputs", "want an error");
  printf("loss %.6f y %.4f error %s\n", loss, y, lite_last_error(s));
  lite_close(again);
  lite_close(s);
  return 0;
}
