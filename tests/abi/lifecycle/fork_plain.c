// Replaces fork_library where fork handlers must not allocate.
void fork_library_use(void) {}
