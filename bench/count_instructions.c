/* A plugin of qemu-user that counts how often each block of a program's instructions runs and prints on standard error,
   for each: its address, how many instructions it has, how often it ran. QEMU's package for Debian has no header for
   plugins, so what is used of its interface is declared here. */

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb* block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb* block);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, void (*translated)(plugin_id, struct qemu_plugin_tb*));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb* block, int operation, void* counter,
                                              uint64_t added);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*ended)(plugin_id, void*), void* data);

enum { add_u64 = 0 };

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

struct block {
  uint64_t address, instructions, runs;
  struct block* next;
};
static struct block* blocks;

static void count(plugin_id id, struct qemu_plugin_tb* translated) {
  (void)id;
  struct block* block = calloc(1, sizeof *block);
  if (block == NULL) abort();
  block->address = qemu_plugin_tb_vaddr(translated);
  block->instructions = qemu_plugin_tb_n_insns(translated);
  block->next = blocks;
  blocks = block;
  qemu_plugin_register_vcpu_tb_exec_inline(translated, add_u64, &block->runs, 1);
}

static void print(plugin_id id, void* data) {
  (void)id, (void)data;
  for (const struct block* b = blocks; b != NULL; b = b->next) {
    fprintf(stderr, "block %" PRIx64 " %" PRIu64 " %" PRIu64 "\n", b->address, b->instructions, b->runs);
  }
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void* info, int count_of,
                                                               char** arguments) {
  (void)info, (void)count_of, (void)arguments;
  qemu_plugin_register_vcpu_tb_trans_cb(id, count);
  qemu_plugin_register_atexit_cb(id, print, NULL);
  return 0;
}
