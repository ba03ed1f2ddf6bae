// One of many small libraries with thread-local variables in the static block (initial-exec):
// together they use it up.
__attribute__((tls_model("initial-exec"))) static __thread volatile char state[64];
int tls_user(void) { return state[0]++; }
