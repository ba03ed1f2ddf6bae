// Plugins that resolve symbols in the C library before the program: their malloc and free are those
// of libc.so, or of an object of their own. Blocks cross in both directions.
//
//   deepbind cross PLUGIN lazy|now
//     opened with RTLD_DEEPBIND; each function of the family on each other's blocks
//   deepbind first PLUGIN
//     threads make the first calls of the C library's own allocator, all at the same time
//   deepbind private PLUGIN
//     the plugin brings its own allocator, which must serve it
//   deepbind runpath OPENER PLUGIN
//     opened by a library that finds it only through its own RUNPATH
//   deepbind handle PLUGIN
//     no flag: functions found by the handle of libc.so, or of a library that needs it
//   deepbind namespace PLUGIN
//     in a namespace of its own (dlmopen): no block crosses, nothing breaks
//   deepbind apart PLUGIN
//     the same by dlopen, for a static program: the plugin comes with its own C library
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#include "deepbind.h"
#include "expect.h"

// The plugin's constructor finds these by name.
void* block_for_constructor;
void* block_of_constructor;

static struct Family family_in(void* library, const struct Family* (*take)(void)) {
  EXPECT(library != NULL);
  if (take != NULL) return *take();
  struct Family found;
#define FIND(name) found.name = (__typeof__(found.name))dlsym(library, #name)
  FIND(malloc), FIND(free), FIND(calloc), FIND(realloc), FIND(reallocarray), FIND(memalign),
      FIND(posix_memalign), FIND(aligned_alloc);
  FIND(valloc), FIND(malloc_usable_size), FIND(strdup), FIND(asprintf);
#undef FIND
  return found;
}

static void* made_by(const struct Family* from, unsigned way, size_t size) {
  void* block = NULL;
  switch (way % 8) {
    case 0: return from->malloc(size);
    case 1: return from->calloc(1, size);
    case 2: return from->realloc(NULL, size);
    case 3: return from->memalign(64, size);
    case 4: return from->posix_memalign(&block, 256, size) == 0 ? block : NULL;
    case 5: return from->aligned_alloc(32, size);
    case 6: return from->valloc(size);
    default: return from->reallocarray(NULL, 1, size);
  }
}

// A block allocated by one family is queried, resized and freed by the other.
static void cross(const struct Family* from, const struct Family* to, unsigned long* state) {
  unsigned way = random_below(state, 8);
  size_t size = random_size(state);
  unsigned char* block = marked(made_by(from, way, size), size);
  unsigned char mark = block[0];
  EXPECT(to->malloc_usable_size(block) >= size);
  if (random_below(state, 3) == 0) {
    block = random_below(state, 2) == 0 ? to->realloc(block, size + 5000)
                                        : to->reallocarray(block, 1, size + 5000);
    EXPECT(block != NULL && block[0] == mark && block[size - 1] == mark);
    EXPECT(from->malloc_usable_size(block) >= size + 5000);
    if (random_below(state, 2) == 0) to = from;
  }
  to->free(block);
}

static void cross_strings(const struct Family* from, const struct Family* to) {
  char* text = from->strdup("a text");
  EXPECT(text != NULL && strcmp(text, "a text") == 0);
  to->free(text);
  EXPECT(from->asprintf(&text, "%0200d", 7) == 200);
  text = to->realloc(text, 100000);
  EXPECT(text != NULL && text[199] == '7');
  from->free(text);
}

static const struct Family own = {
    malloc,   free,           calloc,        realloc, reallocarray,
    memalign, posix_memalign, aligned_alloc, valloc,  malloc_usable_size,
    strdup,   asprintf};
static struct Family theirs;

static void* cross_often(void* seed) {
  unsigned long state = (unsigned long)seed;
  for (int i = 0; i < 2000; i++) {
    cross(&own, &theirs, &state);
    cross(&theirs, &own, &state);
    cross_strings(&own, &theirs);
    cross_strings(&theirs, &own);
  }
  return NULL;
}

static void use_linker_memory(void* library, int with_storage) {
  int (*use)(int) = (int (*)(int))dlsym(library, "plugin_uses_linker_memory");
  EXPECT(use != NULL && use(with_storage) == 10);
}

static void cross_in_threads(void) {
  pthread_t threads[3];
  for (size_t i = 0; i < 3; i++)
    EXPECT(pthread_create(&threads[i], NULL, cross_often, (void*)(i + 1)) == 0);
  cross_often((void*)9);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}

static pthread_barrier_t all_here;

static void* first_call(void* unused) {
  pthread_barrier_wait(&all_here);
  for (int i = 0; i < 100; i++) free_marked(marked(theirs.memalign(64, 100), 100), 100);
  return unused;
}

// Runs in many processes, since each has only one first call.
static void first_calls_in_threads(void) {
  for (int i = 0; i < 400; i++) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      pthread_t threads[3];
      EXPECT(pthread_barrier_init(&all_here, NULL, 3) == 0);
      for (int t = 0; t < 3; t++) EXPECT(pthread_create(&threads[t], NULL, first_call, NULL) == 0);
      for (int t = 0; t < 3; t++) EXPECT(pthread_join(threads[t], NULL) == 0);
      _exit(0);
    }
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
  }
}

static const struct Family* (*taker(void* library))(void) {
  EXPECT(library != NULL);
  const struct Family* (*take)(void) =
      (const struct Family* (*)(void))dlsym(library, "plugin_family");
  EXPECT(take != NULL);
  return take;
}

static void private_allocator(void* library) {
  theirs = *taker(library)();
  size_t (*count)(void) = (size_t(*)(void))dlsym(library, "private_count");
  EXPECT(count != NULL);
  size_t before = count();
  for (int i = 1; i < 100; i++) {
    char* block = theirs.malloc(100);
    EXPECT(((size_t)block & 15) == 0 && memcmp(block - 16, "private block ..", 16) == 0);
    theirs.free(block);
  }
  EXPECT(count() == before + 99);
  free_marked(marked(malloc(100), 100), 100);
  EXPECT(count() == before + 99);
}

static void keep_apart(void* library) {
  theirs = family_in(library, taker(library));
  unsigned long state = 1;
  for (int i = 0; i < 3000; i++) {
    cross(&theirs, &theirs, &state);
    cross(&own, &own, &state);
    cross_strings(&theirs, &theirs);
  }
  int (*keys_are_new)(void) = (int (*)(void))dlsym(library, "plugin_keys_are_new");
  EXPECT(keys_are_new != NULL && keys_are_new());
}

int main(int argc, char** argv) {
  EXPECT(argc >= 3);
  expect_subject();
  block_for_constructor = marked(malloc(300), 300);
  if (strcmp(argv[1], "cross") == 0) {
    int when = strcmp(argv[3], "lazy") == 0 ? RTLD_LAZY : RTLD_NOW;
    void* library = dlopen(argv[2], when | RTLD_LOCAL | RTLD_DEEPBIND);
    theirs = family_in(library, taker(library));
    EXPECT(block_for_constructor == NULL);
    free_marked(block_of_constructor, 400);
    use_linker_memory(library, 1);
    cross_in_threads();
    EXPECT(dlclose(library) == 0);
  } else if (strcmp(argv[1], "first") == 0) {
    void* library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    theirs = family_in(library, taker(library));
    first_calls_in_threads();
  } else if (strcmp(argv[1], "private") == 0) {
    private_allocator(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
  } else if (strcmp(argv[1], "runpath") == 0) {
    void* opener = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    EXPECT(opener != NULL && dlopen(argv[3], RTLD_NOW | RTLD_DEEPBIND) == NULL);
    void* (*open_plugin)(const char*) = (void* (*)(const char*))dlsym(opener, "open_plugin");
    void* library = open_plugin(argv[3]);
    theirs = family_in(library, taker(library));
    cross_in_threads();
  } else if (strcmp(argv[1], "handle") == 0) {
    theirs = family_in(dlopen("libc.so.6", RTLD_LAZY), NULL);
    cross_in_threads();
    theirs = family_in(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL), NULL);
    cross_in_threads();
  } else if (strcmp(argv[1], "namespace") == 0) {
    void* library = dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW);
    keep_apart(library);
    // Not in a static program: glibc's plugins cannot start threads there. Without thread-local
    // storage: the dynamic linker allocates it with the program's malloc, and the namespace's C
    // library frees it with its own free (docs/decisions/0069).
    use_linker_memory(library, 0);
  } else if (strcmp(argv[1], "apart") == 0) {
    keep_apart(dlopen(argv[2], RTLD_NOW | RTLD_LOCAL));
  } else {
    EXPECT(!"a mode");
  }
  return ok();
}
