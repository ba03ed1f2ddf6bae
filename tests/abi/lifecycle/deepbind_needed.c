// A library that deepbind_plugin.c needs: it is opened with the plugin, and its symbols resolve in
// the same order as the plugin's.
#include <stdlib.h>

void* needed_realloc(void* block, size_t size) { return realloc(block, size); }
void needed_free(void* block) { free(block); }
