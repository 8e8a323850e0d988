/* A plugin of qemu-user that counts the instructions of a program and prints their number on standard error. QEMU's
   package for Debian has no header for plugins, so what is used of its interface is declared here. */

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* block, int operation, void* counter,
                                              uint64_t added);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void*), void* data);

enum { add_u64 = 0 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t instructions;

static void count(plugin_id id, struct qemu_plugin_tb* block) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(block, add_u64, &instructions, qemu_plugin_tb_n_insns(block));
}

static void print(plugin_id id, void* data) {
  (void)id, (void)data;
  fprintf(stderr, "instructions %" PRIu64 "\n", instructions);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void* info, int count_of,
                                                               char** arguments) {
  (void)info, (void)count_of, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count);
  qemu_plugin_register_atexit_cb(id, print, NULL);
  return 0;
}
