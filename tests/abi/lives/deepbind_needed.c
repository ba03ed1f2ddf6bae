// A library that deepbind_plugin.c needs: opened with the plugin, it looks where the plugin does.
#include <stdlib.h>

void* needed_realloc(void* block, size_t size) { return realloc(block, size); }
void needed_free(void* block) { free(block); }
