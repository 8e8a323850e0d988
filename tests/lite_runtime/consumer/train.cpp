// What train.c does, by the C++ face: train_cpp MODEL SAVED. The model is `linear_model` of ../models.py.

#include <cstdio>

#include "lite/lite.hpp"

static int fail(const lite::Session& session) {
  std::fprintf(stderr, "train_cpp: %s\n", session.error().c_str());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  lite::Session session = lite::Session::open(argv[1]);
  if (!session) return fail(session);
  const std::vector<float> x = {1, 0, 0, 1, 1, 1, 2, 1}, target = {3, -1, 2, 5}, lr = {0.1f};
  const auto feed = [&](int64_t) {
    return session.set_input("x", x, {4, 2}, "train") && session.set_input("target", target, {4}, "train") &&
           session.set_input("lr", lr, {}, "train");
  };
  std::vector<float> losses;
  if (!session.train(100, feed, &losses) || losses.size() != 100 || losses[99] >= losses[0]) return fail(session);
  if (!session.train(1000, [&](int64_t step) { return step < 99 && feed(step); }, &losses)) return fail(session);
  if (losses.size() != 99) return 3;  // it ended where there was no more
  if (session.train(2, [&](int64_t) { return session.set_input("x", x, {3, 2}, "train"); })) return 3;  // no such shape
  if (!feed(0) || !session.run("train")) return fail(session);
  const auto loss = session.output<float>("loss", "train");
  if (loss.empty()) return fail(session);
  if (!session.save(argv[2])) return fail(session);
  lite::Session again = lite::Session::open(argv[2]);
  if (!again) return fail(again);
  if (!again.set_input("x", std::vector<float>{10, 1}, {1, 2})) return fail(again);  // gone by the time of the run
  const std::vector<float> one = {10, 1};
  if (!again.set_input("x", one, {1, 2}) || !again.run()) return fail(again);
  const auto y = again.output<float>("y"), w = again.weight<float>("w");
  if (y.empty() || w.empty()) return fail(again);  // no such output, or no such weight
  const bool bad_input = again.set_input("x", one, {2}), bad_name = again.set_input("z", one, {1, 2});
  if (bad_input || bad_name || lite::Session::open("/nowhere.ms")) return 3;
  std::printf("loss %.6f y %.4f w %.3f error %s\n", loss[0], y[0], w[0], again.error().c_str());
  return 0;
}
