//! What a service does with tikv-jemallocator and tikv-jemalloc-ctl: figures, a thread's own counters, settings, a heap profile.
//! Each step checks what jemalloc's manual promises, with any of its calls, and prints a line.
use std::{ffi::CString, hint::black_box, thread};
use tikv_jemalloc_ctl::{
    arenas, background_thread, config, epoch, max_background_threads, opt, profiling, raw, stats, thread as own, version,
};
use tikv_jemalloc_sys as sys;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const MIB: usize = 1 << 20;

fn figures() {
    epoch::advance().unwrap();
    let before = stats::allocated::read().unwrap();
    let held = black_box(vec![1u8; 64 * MIB]);
    let mib = stats::allocated::mib().unwrap();
    assert_eq!(mib.read().unwrap(), before, "figures stand still within an epoch");
    let e = epoch::mib().unwrap();
    let first = e.advance().unwrap();
    assert!(e.advance().unwrap() > first);
    let grown = mib.read().unwrap() - before;
    assert!((64 * MIB..65 * MIB).contains(&grown), "64 MiB more, not {grown}");
    let (active, resident, mapped) =
        (stats::active::read().unwrap(), stats::resident::read().unwrap(), stats::mapped::read().unwrap());
    assert!(active >= mib.read().unwrap() && resident >= 64 * MIB && mapped >= active);
    assert!(stats::metadata::read().unwrap() > 0);
    stats::retained::read().unwrap();
    drop(held);
    e.advance().unwrap();
    assert!(mib.read().unwrap() < before + MIB);
    println!("figures");
}

fn threads() {
    let allocated = own::allocatedp::mib().unwrap().read().unwrap();
    let deallocated = own::deallocatedp::mib().unwrap().read().unwrap();
    let (a, d) = (allocated.get(), deallocated.get());
    let held = black_box(vec![0u8; 8 * MIB]);
    assert!((8 * MIB as u64..9 * MIB as u64).contains(&(allocated.get() - a)));
    drop(held);
    for i in 0..20_000 {
        drop(black_box(vec![0u8; 16_384 + i % 2]));
    }
    let (a, d) = (allocated.get() - a, deallocated.get() - d);
    assert!(a >= 20_000 * 16_384, "allocated {a}");
    assert!(d <= a + 8 * MIB as u64 && d > a / 2, "of {a} bytes {d} were freed: all, as far as it is known");
    let others = thread::spawn(|| unsafe { raw::read::<u64>(b"thread.allocated\0").unwrap() }).join().unwrap();
    assert!(others < MIB as u64, "a new thread has allocated {others}");
    println!("threads");
}

fn settings() {
    println!("version {}", version::read().unwrap());
    // jemalloc itself has one more for large blocks.
    let (arenas, wanted) = (arenas::narenas::read().unwrap(), opt::narenas::read().unwrap());
    assert!(arenas == wanted || arenas > wanted && !version::read().unwrap().contains("seemalloc"));
    assert!(background_thread::read().unwrap());
    background_thread::write(true).unwrap();
    assert!(max_background_threads::read().unwrap() >= 1);
    assert!(!opt::abort::read().unwrap() && opt::tcache::read().unwrap());
    opt::dss::read().unwrap();
    config::malloc_conf::read().unwrap();
    unsafe {
        let decay: isize = raw::read(b"arenas.dirty_decay_ms\0").unwrap();
        raw::write(b"arena.0.dirty_decay_ms\0", 500isize).unwrap();
        assert_eq!(raw::read::<isize>(b"arena.0.dirty_decay_ms\0").unwrap(), 500);
        raw::write(b"arena.0.dirty_decay_ms\0", decay).unwrap();
        assert!(raw::read::<usize>(b"no.such.name\0").is_err());
        assert!(raw::read::<u8>(b"arenas.page\0").is_err());
    }
    println!("settings");
}

fn profiles(path: &str) {
    assert!(profiling::prof::read().unwrap());
    assert!(profiling::lg_prof_sample::read().unwrap() >= 1);
    unsafe {
        raw::write(b"prof.active\0", false).unwrap();
        assert!(!raw::read::<bool>(b"prof.active\0").unwrap());
        raw::write(b"prof.active\0", true).unwrap();
        let held: Vec<Vec<u8>> = black_box((0..40_000).map(|i| vec![0u8; 1000 + i % 3]).collect());
        let name = CString::new(path).unwrap();
        raw::write(b"prof.dump\0", name.as_ptr()).unwrap();
        drop(held);
    }
    println!("profiles");
}

fn blocks() {
    let align = |lg: i32| lg;
    unsafe {
        for lg in 0..=16 {
            let p = sys::mallocx(3000, align(lg) | sys::MALLOCX_ZERO);
            assert_eq!(p as usize % (1 << lg), 0);
            assert!(std::slice::from_raw_parts(p as *const u8, 3000).iter().all(|b| *b == 0));
            assert_eq!(sys::sallocx(p, align(lg)), sys::nallocx(3000, align(lg)));
            std::ptr::write_bytes(p as *mut u8, 0xab, 3000);
            let p = sys::rallocx(p, 50_000, align(lg) | sys::MALLOCX_ZERO);
            assert_eq!(p as usize % (1 << lg), 0);
            let bytes = std::slice::from_raw_parts(p as *const u8, 50_000);
            assert!(bytes[..3000].iter().all(|b| *b == 0xab));
            assert!(bytes[sys::nallocx(3000, align(lg))..].iter().all(|b| *b == 0));
            let now = sys::xallocx(p, 50_000, 1000, align(lg));
            assert!(now >= 50_000 && now == sys::malloc_usable_size(p));
            sys::sdallocx(p, 50_000, align(lg));
        }
        assert!(sys::mallocx(isize::MAX as usize, 0).is_null());
        assert_eq!(sys::nallocx(usize::MAX, 0), 0);
        sys::malloc_stats_print(None, std::ptr::null_mut(), std::ptr::null());
    }
    println!("blocks");
}

fn main() {
    figures();
    threads();
    settings();
    profiles(&std::env::args().nth(1).unwrap());
    blocks();
}
