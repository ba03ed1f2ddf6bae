package owner

import "regexp"

// Kind tells the role of a function in a stack.
type Kind uint8

// The kinds.
const (
	Program   Kind = iota // a function of the program: it may own memory
	Allocator             // the allocator, or a function that only passes on a request to it
	Library               // a function of a language's runtime or of a library of containers: its caller owns the memory
	// Interpreter is a native function of an interpreter. It is passed over in a profile that has functions of its
	// language. In other profiles it counts as one of the program.
	Interpreter
	Startup // it starts the program or a thread
)

func (k Kind) String() string {
	return [...]string{"program", "allocator", "library", "interpreter", "start-up"}[k]
}

// Rule assigns a kind to functions. A function fits if it matches all patterns that the rule has.
type Rule struct {
	Kind Kind
	// Of names the library or language in messages.
	Of string
	// Language is the language of an interpreter, or of the interpreted functions of a rule with a File (default: Python).
	Language string
	// Function matches the short name without its return type (Name).
	Function *regexp.Regexp
	// Module matches the path of the program or library. A rule with Function also applies if the module is unknown.
	Module *regexp.Regexp
	// File matches the source file of an interpreted function.
	File *regexp.Regexp
	// Example is a function that this rule is the first to match, and ExampleModule its module or, if the rule has a
	// File, its file.
	Example, ExampleModule string
}

// Names used by several rules.
const (
	python = "Python"
	script = "JavaScript"
	java   = "Java"

	cxx     = "C++ library"
	rust    = "Rust library"
	libc    = "libc"
	glib    = "GLib"
	qt      = "Qt"
	goCalls = "cgo"
)

// regular compiles a pattern of the table.
func regular(pattern string) *regexp.Regexp { return regexp.MustCompile(pattern) }

// module compiles the base name of a library without its version: `libc` matches /lib/libc.so.6 and libc-2.31.so.
func module(names string) *regexp.Regexp {
	return regular(`(^|/)(` + names + `)(-[\d.]+)?\.so(\.[\d.]+)?$`)
}

var (
	libcModule   = module(`libc|libm|libpthread|libdl|librt|libresolv|libutil|libanl|libnss_\w+|ld-linux[\w-]*|ld64|ld|libgcc_s|ld-musl-\w+|libc\.musl-\w+`)
	pythonModule = regular(pythonModules)
	jvmModule    = module(`libjvm|libjava|libjli|libnio|libnet|libzip|libjimage|libverify`)
	nodeModule   = regular(`(^|/)(node|nodejs|libnode\.so[\d.]*|libv8[\w.-]*)$`)
	qtModule     = module(`libQt\d?Core`)
	glibModule   = module(`lib(glib|gobject|gmodule|gthread)-2\.0`)
)

// Of Python: the interpreter, and extension modules.
const (
	pythonModules    = `(^|/)(libpython[23][\d.]*m?d?\.so[\d.]*|python[\d.]*)$`
	extensionModules = `\.(cpython-\d+\w*(-[\w-]+)?|abi3|pypy\d+-\w+)\.so$|/(site-packages|dist-packages|lib-dynload)/.*\.so[\d.]*$`
)

// rustModules are the modules of Rust's library. A C++ program may have a namespace core or alloc of its own, so the
// name of the crate is not sufficient.
const rustModules = `alloc::(?:alloc|borrow|boxed|collections|ffi|fmt|raw_vec|rc|slice|str|string|sync|task|vec)` +
	`|core::(?:alloc|any|array|ascii|async_iter|bool|borrow|cell|char|clone|cmp|convert|default|error|ffi|fmt|future|hash|hint|intrinsics|iter|marker|mem|net|num|ops|option|panic|panicking|pin|ptr|range|result|slice|str|sync|task|time|tuple|unicode)` +
	`|hashbrown|smallvec::SmallVec\w*|indexmap::(?:map|set)|bytes::(?:bytes|bytes_mut|buf)|arrayvec::\w+`

// Rules is the table. The first rule that matches a function applies. A function that no rule matches is one of the
// program.
var Rules = []Rule{
	// Allocators.
	{
		Kind: Allocator, Of: "seemalloc", Function: regular(`^seemalloc(::|_pool_alloc$)`), Example: "seemalloc::heap::ThreadHeap::refill",
	},
	{
		Kind: Allocator, Of: "malloc", Module: module(`lib(seemalloc|jemalloc|tcmalloc|mimalloc|snmalloc|rpmalloc|hoard)\w*`),
		Example: "refill_small", ExampleModule: "/usr/lib/libseemalloc.so",
	},
	{
		Kind: Allocator, Of: "malloc",
		Function: regular(`^(_?rjem_|je_|tc_|mi_|_mi_|__libc_|__)?(malloc|calloc|realloc|reallocarray|reallocf|memalign|posix_memalign|aligned_alloc|valloc|pvalloc|mallocx|rallocx)(@.*)?$`),
		Example:  "__libc_malloc",
	},
	{
		Kind: Allocator, Of: cxx, Function: regular(`^_Zn[aw][jm]|(^|::)operator (new|delete)(\[\])?$`), Example: "operator new[]",
	},

	// Start-up: outermost functions of a program or of a thread.
	{
		Kind: Startup, Of: "start-up", Function: regular(`^(_start|__libc_start_main(_impl)?|__libc_start_call_main|generic_start_main|_dl_start|_dl_start_user|_dl_start_final|_dl_sysdep_start|_dl_init|call_init|_dl_relocate_object|_dl_main)(\.\w+|@.*)?$`),
		Example: "__libc_start_call_main",
	},
	{
		Kind: Startup, Of: "start-up", Function: regular(`^(__)?(clone3?|clone_internal|start_thread|thread_start|dl_main)(@.*)?$`), Module: libcModule,
		Example: "clone3", ExampleModule: "/usr/lib/x86_64-linux-gnu/libc.so.6",
	},
	{
		Kind: Startup, Of: cxx,
		Function: regular(`^std::thread::(_State|_Invoker|_M_invoke|_Impl|_M_run)|^std::(__\w+::)?__thread_(proxy|execute)|^execute_native_thread_routine|^std::(__\w+::)?__invoke(_impl|_r|_ret)?\b`),
		Example:  "std::thread::_Invoker::operator()",
	},
	{
		Kind: Startup, Of: rust,
		Function: regular(`^<?std::(rt::|sys(_common)?::.*(backtrace::__rust_begin_short_backtrace|thread::Thread::new::thread_start)|panicking::(try|catch_unwind)|panic::catch_unwind|thread::(Builder::spawn_unchecked|lifecycle::))|^__rust_try|^<alloc::boxed::Box<.*> as core::ops::function::FnOnce<.*>>::call_once`),
		Example:  "std::rt::lang_start_internal",
	},
	{
		Kind: Startup, Of: qt, Function: regular(`^QThreadPrivate::start$`), Example: "QThreadPrivate::start",
	},
	{
		Kind: Startup, Of: glib, Function: regular(`^g_thread_proxy$`), Example: "g_thread_proxy",
	},
	{
		Kind: Startup, Of: goCalls, Function: regular(`^(_rt0_\w+|runtime\.(rt0_go|main|goexit|mstart\w*|mcall|systemstack)(\.abi0)?|threadentry)$`),
		Example: "runtime.goexit",
	},
	{
		Kind: Startup, Of: python, File: regular(`^<frozen runpy>$`), Example: "_run_module_as_main", ExampleModule: "<frozen runpy>",
	},
	{
		Kind: Startup, Of: python, File: regular(`/lib(64)?/python[23]\.\d+/threading\.py$`), Function: regular(`^(Thread\.)?(_bootstrap(_inner)?|run)$`),
		Example: "Thread._bootstrap_inner", ExampleModule: "/usr/lib/python3.11/threading.py",
	},

	// Python. Native functions of the interpreter and of extension modules belong to the Python function that called
	// them. The interpreter's allocator functions are always passed over.
	{
		Kind: Allocator, Of: python,
		Function: regular(`^(_?Py(Mem|Object)_(Raw)?(Malloc|Calloc|Realloc|New|NewVar|Resize)\w*|_PyMem_\w+|_PyObject_GC_\w+|PyObject_GC_\w+|_PyObject_(Arena\w+|New|NewVar)|_?PyType_(GenericAlloc|AllocNoTrack)|PyDataMem_\w+)$`),
		Example:  "_PyMem_RawMalloc",
	},
	{
		Kind: Allocator, Of: python, Module: pythonModule,
		Function: regular(`^(pymalloc_\w+|new_arena|allocate_from_new_pool|gc_alloc|arena_map\w+)$`),
		Example:  "pymalloc_alloc", ExampleModule: "/usr/bin/python3.11",
	},
	{
		Kind: Allocator, Of: "NumPy", Module: regular(extensionModules + `|` + pythonModules),
		Function: regular(`^(default_(raw)?(malloc|calloc|realloc)|default_alloc|_?npy_alloc_cache\w*)$`),
		Example:  "default_malloc", ExampleModule: "/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
	},
	{
		Kind: Interpreter, Of: python, Language: python, Module: pythonModule, Example: "dict_resize", ExampleModule: "/usr/lib/libpython3.11.so.1.0",
	},
	{
		Kind: Interpreter, Of: python, Language: python, Module: regular(extensionModules),
		Example: "array_empty", ExampleModule: "/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
	},
	{
		Kind: Interpreter, Of: python, Language: python, Function: regular(`^(_?Py[A-Z][A-Za-z]*_\w+|_?Py_\w+|pymain_\w+)$`), Example: "_PyEval_EvalFrameDefault",
	},
	{
		Kind: Library, Of: "NumPy", File: regular(`/(site-packages|dist-packages)/(numpy|scipy|pandas)/|^<__array_function__ internals>$`),
		Example: "ones", ExampleModule: "/usr/lib/python3/dist-packages/numpy/core/numeric.py",
	},
	{
		Kind: Program, Of: python, File: regular(`/(site-packages|dist-packages)/`), Example: "get", ExampleModule: "/usr/lib/python3/dist-packages/requests/api.py",
	},
	{
		Kind: Library, Of: "Python library", File: regular(`^<frozen |/lib(64)?/python[23]\.\d+/`), Example: "loads", ExampleModule: "/usr/lib/python3.11/json/__init__.py",
	},

	// JavaScript and Java.
	{
		Kind: Allocator, Of: "Node",
		Function: regular(`^(node::(Uncheck(ed)?)?(Malloc|Calloc|Realloc)\w*|node::NodeArrayBufferAllocator::\w+|uv__(malloc|calloc|realloc\w*|strn?dup)|v8::(internal|base)::(Malloced::|AlignedAlloc|AllocWithRetry|NewArray|Malloc|Calloc|Realloc|AllocatePages|AccountingAllocator::))`),
		Example:  "node::UncheckedMalloc",
	},
	{
		// Of a program without symbols of its JavaScript functions, the function of Node that calls V8 says more.
		Kind: Library, Of: "V8", Language: script, Function: regular(`^(v8|cppgc|heap::base)::|^v8_|^Builtins_`), Example: "v8::internal::Heap::AllocateRaw",
	},
	{
		Kind: Interpreter, Of: "Node", Language: script, Module: nodeModule, Function: regular(`^(node|uv)(::|_)|^uv__`),
		Example: "node::Buffer::New", ExampleModule: "/usr/bin/node",
	},
	{
		Kind: Library, Of: "Node library", Language: script, File: regular(`^node:`), Example: "allocUnsafeSlow", ExampleModule: "node:buffer",
	},
	{
		Kind: Allocator, Of: "JVM", Module: jvmModule,
		Function: regular(`^(os::(malloc|realloc|strdup)\w*|AllocateHeap|ReallocateHeap|resource_(re)?allocate_bytes|(CHeapObj\w*|ResourceObj|Chunk|ChunkPool|Arena|ResourceArea|MallocHeader|MallocTracker)::.*)$`),
		Example:  "os::malloc", ExampleModule: "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
	},
	{
		Kind: Interpreter, Of: "JVM", Language: java, Module: jvmModule, Example: "Unsafe_AllocateMemory0", ExampleModule: "/usr/lib/jvm/lib/server/libjvm.so",
	},

	// Rust.
	{
		Kind: Library, Of: rust, Function: regular(`^__(rust|rdl|rg)_|^_R\w*__rust_(re)?alloc`), Example: "__rust_alloc",
	},
	{
		// alloc::raw_vec::RawVec<T,A>::grow_one, <alloc::vec::Vec<T> as core::clone::Clone>::clone
		Kind: Library, Of: rust, Function: regular(`^<?(?:&(?:mut )?|\*const |\*mut )*(?:impl )?(?:` + rustModules + `)(?:::|>|$)`), Example: "alloc::raw_vec::RawVec<T,A>::grow_one",
	},
	{
		// A trait that only the library implements, for a type of the program.
		Kind: Library, Of: rust, Function: regular(`^<.* as <?alloc::(?:vec|slice|raw_vec|boxed|rc|sync|collections|ffi)::`),
		Example: "<leak::Session as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
	},
	{
		// A generic or built-in type: the library implements its traits.
		Kind: Library, Of: rust, Function: regular(`^<(?:&(?:mut )?)*(?:[A-Z]\w?|[iu](?:8|16|32|64|128|size)|f32|f64|bool|char|str|\[.*\]|\(.*\)|dyn .*|_) as (?:alloc|core|std)::`),
		Example: "<T as alloc::string::ToString>::to_string",
	},
	{
		Kind: Library, Of: rust, Function: regular(`^<&mut .* as core::(?:iter::.*Iterator|fmt::Write|future::.*Future)>`), Example: "<&mut leak::Rows as core::iter::traits::iterator::Iterator>::next",
	},

	{
		// Modules of std that the C++ library does not have.
		Kind: Library, Of: rust, Function: regular(`^<?std::(?:alloc|backtrace|collections|env|fs|io|net|os|panicking|path|process|rt|sys|sys_common|sync::(?:mpsc|poison|once_lock|lazy_lock)|thread::local)::`),
		Example: "std::collections::hash::map::HashMap<K,V,S,A>::insert",
	},
	{
		Kind: Library, Of: rust, Function: regular(`^<(?:\[.*\]|str|char|bool|[iuf]\d+|[iu]size)>::`), Example: "<[u8]>::to_vec_in::<>",
	},
	{
		Kind: Library, Of: rust, Function: regular(`^<.* as <\[_\]>::`), Example: "<u8 as <[_]>::to_vec_in::ConvertVec>::to_vec::<>",
	},

	// C++.
	{
		Kind: Library, Of: cxx, Function: regular(`^<?(?:&(?:mut )?)*(std|__gnu_cxx|__gnu_debug|__gnu_norm|__gnu_parallel|__cxxabiv1)(::|>)|^__cxa_|^__gxx_|^__dynamic_cast$|^__once_proxy$`), Example: "std::vector::_M_realloc_insert",
	},
	{
		Kind: Library, Of: cxx, Module: module(`libstdc\+\+|libc\+\+|libc\+\+abi|libsupc\+\+`), Example: "pool_allocate", ExampleModule: "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
	},
	{
		Kind: Library, Of: "Abseil", Function: regular(`^absl::`), Example: "absl::lts_20220623::container_internal::raw_hash_set::resize",
	},
	{
		Kind: Library, Of: "Boost",
		Function: regular(`^boost::(container|unordered|pool|object_pool|singleton_pool|fast_pool_allocator|pool_allocator|simple_segregated_storage|default_user_allocator\w*|circular_buffer|multi_index|intrusive|movelib|detail|make_shared|allocate_shared|shared_ptr|intrusive_ptr|shared_array|make_unique|function\w*|any|optional|variant|heap|lockfree|ptr_container|ptr_vector|ptr_map|ptr_list|alloc|allocator_\w+|interprocess|bimaps?|dynamic_bitset|array|core)\b`),
		Example:  "boost::unordered::detail::table::rehash_impl",
	},
	{
		Kind: Library, Of: "Folly", Function: regular(`^folly::(f14|F14|fbvector|fbstring|fbstring_core|small_vector|IOBuf|IOBufQueue|Arena|SysArena|detail|AtomicHash\w+|sorted_vector\w+|checkedMalloc|checkedCalloc|checkedRealloc|smartRealloc|Function)\b`),
		Example: "folly::fbvector::emplace_back_aux",
	},
	{
		Kind: Library, Of: "Eigen", Function: regular(`^Eigen::(internal::(aligned|conditional_aligned|handmade_aligned|construct)|DenseStorage|PlainObjectBase|Matrix|Array)\w*`), Example: "Eigen::internal::aligned_malloc",
	},
	{
		Kind: Library, Of: "fmt", Function: regular(`^fmt::`), Example: "fmt::v9::basic_memory_buffer::grow",
	},
	{
		Kind: Library, Of: "Protobuf", Function: regular(`^google::protobuf::(Arena|RepeatedField|RepeatedPtrField|Map|internal::(ThreadSafeArena|SerialArena|ArenaImpl|ArenaStringPtr|RepeatedPtrFieldBase|StringBlock|AllocateMemory|AllocateBlock|Map\w*|InternalMetadata))\b`),
		Example: "google::protobuf::internal::ThreadSafeArena::AllocateAligned",
	},
	{
		Kind: Library, Of: qt, Module: qtModule, Example: "_ZL8growSizem", ExampleModule: "/usr/lib/x86_64-linux-gnu/libQt5Core.so.5",
	},
	{
		Kind: Library, Of: qt,
		Function: regular(`^Q(ArrayData|TypedArrayData|StaticArrayData|ArrayDataPointer|ArrayDataOps|GenericArrayOps|PodArrayOps|String|StringBuilder|ByteArray|List|ListData|Vector|VectorData|LinkedList|Stack|Queue|Hash|HashData|MultiHash|Map|MapData|MapDataBase|MapNode|MultiMap|Set|Variant|VarLengthArray|SharedPointer|SharedDataPointer|Span|Cache|JsonObject|JsonArray|Url)(Private)?::|^QHashPrivate::|^QtPrivate::|^QtSharedPointer::|^QMapNodeBase|^qMalloc|^qRealloc`),
		Example:  "QArrayData::allocate",
	},

	// C.
	{
		Kind: Library, Of: glib, Module: glibModule, Example: "standard_malloc", ExampleModule: "/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0",
	},
	{
		Kind: Library, Of: glib,
		Function: regular(`^g_((try_)?(malloc|malloc0|realloc)(_n)?|(mem)?dup2?|memdup2?|aligned_alloc0?|slice_(alloc0?|copy)|strn?dup|strdupv|strdup_v?printf|strconcat|strjoinv?|strsplit(_set)?|strescape|strndup|v?asprintf|array_\w+|byte_array_\w+|ptr_array_\w+|list_\w+|slist_\w+|queue_\w+|hash_table_\w+|string_\w+|tree_\w+|sequence_\w+|bytes_\w+|variant_\w+|object_new\w*|object_newv|type_create_instance|rc_box_\w+|atomic_rc_box_\w+|intern_\w+|quark_\w+|closure_new\w*|value_\w+)$`),
		Example:  "g_malloc0",
	},
	{
		Kind: Library, Of: libc, Module: libcModule, Example: "_IO_file_doallocate", ExampleModule: "/lib/x86_64-linux-gnu/libc.so.6",
	},
	{
		// The C library in a static program, or in a profile without modules.
		Kind: Library, Of: libc,
		Function: regular(`^(__|_IO_|__IO_|_)?(strn?dup|wcsdup|getline|getdelim|v?asprintf(_internal|_chk)?|fopen(64)?|fopen_internal|fdopen|fmemopen|open_memstream|open_wmemstream|freopen(64)?|popen|opendir|fdopendir|alloc_dir|scandir(64)?|realpath|tsearch|hcreate_r|setenv|add_to_environ|regcomp|getaddrinfo|file_doallocate|wfile_doallocate|doallocbuf|setvbuf|register_printf_\w+|dl_new_object|dl_map_object\w*|new_exitfn|cxa_atexit|pthread_create(_2_1)?|allocate_stack|dl_allocate_tls\w*|tls_get_addr)(@.*)?$`),
		Example:  "strdup",
	},
	{
		// Strings of Redis, which other programs use too.
		Kind: Library, Of: "sds", Function: regular(`^_?sds(new|(try)?newlen|dup|empty|MakeRoomFor(NonGreedy)?|_sdsMakeRoomFor|Resize|RemoveFreeSpace|cat|catlen|catsds|catprintf|catvprintf|catfmt|catrepr|growzero|cpylen|cpy|fromlonglong|split\w*|joinsds|join)$`),
		Example: "_sdsnewlen",
	},
	{
		// Pools and wrappers of nginx, APR, PostgreSQL, PHP, Ruby, Perl, Lua, FFmpeg and MariaDB.
		Kind: Library, Of: "known wrappers of malloc",
		Function: regular(`^(ngx_(p|pn|pc)?alloc|ngx_calloc|ngx_memalign|ngx_palloc_(small|large|block)|ngx_pstrdup|ngx_array_(create|push|push_n)|ngx_list_push|ngx_create_temp_buf` +
			`|apr_(p|pc)?alloc|apr_palloc_debug|apr_pstrn?dup|apr_pmemdup|apr_allocator_alloc|apr_array_(make|push)` +
			`|palloc(0|_extended)?|repalloc|pstrdup|pnstrdup|MemoryContext(Alloc\w*|Strdup)|AllocSet(Alloc\w*|Realloc)|enlargeStringInfo` +
			`|_?_(safe_)?e(malloc|calloc|realloc)\w*|_e(malloc|realloc)\w*|_estrn?dup|zend_mm_(alloc|realloc|chunk_alloc)\w*|zend_(arena_alloc|string_alloc)` +
			`|(ruby_|rb_|objspace_)x(malloc|calloc|realloc)\w*|Perl_safesys(malloc|calloc|realloc)|Perl_sv_grow\w*|S_more_sv|Perl_more_bodies` +
			`|l_alloc|luaM_\w+|lj_mem_\w+|lj_alloc_\w+|av_(malloc|realloc|mallocz|calloc|fast_malloc|fast_realloc)\w*|my_malloc|my_realloc|my_multi_malloc|alloc_root|multi_alloc_root|strmake_root)$`),
		Example: "ngx_palloc_large",
	},
	{
		Kind: Library, Of: "OpenSSL", Function: regular(`^(CRYPTO|OPENSSL)_(secure_)?(malloc|zalloc|realloc|clear_realloc|strdup|strndup|memdup)$`), Example: "CRYPTO_zalloc",
	},
	{
		Kind: Library, Of: goCalls, Function: regular(`^(_cgo_|x_cgo_|_cgoexp_|crosscall|cgo_|runtime\.|runtime/cgo\.)|\._C(func|macro|2func)_`), Example: "_cgo_1234_Cfunc__CMalloc",
	},
}
