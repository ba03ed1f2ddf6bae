// A Rust program with seemalloc as its global allocator, linked in as an archive (docs/linking.md).
use std::alloc::{GlobalAlloc, Layout};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void, CStr};

#[link(name = "seemalloc", kind = "static")]
extern "C" {
    fn malloc(bytes: usize) -> *mut c_void;
    fn calloc(count: usize, each: usize) -> *mut c_void;
    fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn seemalloc_version() -> *const c_char;
    fn seemalloc_profile_dump(path: *const c_char) -> c_int;
}

struct Seemalloc;

// malloc aligns to 16, blocks of at most 8 bytes to 8.
fn is_aligned_by_malloc(layout: Layout) -> bool {
    layout.align() <= 16 && layout.align() <= layout.size()
}

unsafe impl GlobalAlloc for Seemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_aligned_by_malloc(layout) {
            malloc(layout.size()) as *mut u8
        } else {
            aligned_alloc(layout.align(), layout.size()) as *mut u8
        }
    }
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        free(block as *mut c_void)
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_aligned_by_malloc(layout) {
            return calloc(1, layout.size()) as *mut u8;
        }
        let block = self.alloc(layout);
        if !block.is_null() {
            block.write_bytes(0, layout.size());
        }
        block
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let larger = Layout::from_size_align_unchecked(bytes, layout.align());
        if is_aligned_by_malloc(layout) && is_aligned_by_malloc(larger) {
            return realloc(block as *mut c_void, bytes) as *mut u8;
        }
        let moved = self.alloc(larger);
        if !moved.is_null() {
            moved.copy_from_nonoverlapping(block, layout.size().min(bytes));
            self.dealloc(block, layout);
        }
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Seemalloc = Seemalloc;

#[repr(align(128))]
struct Wide([u8; 200]);

#[inline(never)]
fn fill_cache(cache: &mut HashMap<u64, Vec<u8>>) {
    for key in 0..20_000 {
        cache.insert(key, vec![key as u8; 1000]);
    }
}

fn main() {
    let version = unsafe { CStr::from_ptr(seemalloc_version()) };
    println!("seemalloc {}", version.to_str().unwrap());

    let mut cache = HashMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| fill_cache(&mut cache));
    });
    let wide: Vec<Box<Wide>> = (0..100).map(|i| Box::new(Wide([i; 200]))).collect();
    assert!(wide.iter().all(|block| &**block as *const Wide as usize % 128 == 0 && block.0[199] == block.0[0]));
    let zero = vec![0u8; 3 << 20];
    assert!(zero.iter().all(|&byte| byte == 0));
    println!("{} entries, {} bytes", cache.len(), cache.values().map(Vec::len).sum::<usize>());

    if let Some(path) = std::env::args().nth(1) {
        let path = std::ffi::CString::new(path).unwrap();
        assert_eq!(unsafe { seemalloc_profile_dump(path.as_ptr()) }, 0);
    }
}
