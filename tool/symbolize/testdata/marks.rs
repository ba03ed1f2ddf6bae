// Like marks.cc: prints addresses in functions whose names the test knows, and waits.
use std::io::Read;

struct Basket<T> {
    total: Vec<T>,
}

#[inline(always)]
fn here() -> usize {
    let pc: usize;
    #[cfg(target_arch = "x86_64")]
    unsafe { std::arch::asm!("lea {}, [rip]", out(reg) pc) };
    #[cfg(target_arch = "aarch64")]
    unsafe { std::arch::asm!("adr {}, .", out(reg) pc) };
    pc - 1
}

impl<T: Clone> Basket<T> {
    #[inline(always)]
    fn put(&mut self, item: T) {
        println!("mark inlined {:#x}", here());
        self.total.push(item);
    }

    #[inline(never)]
    fn fill(&mut self, item: &T) {
        self.put(item.clone());
    }
}

fn main() {
    let mut basket = Basket { total: Vec::new() };
    basket.fill(&String::from("bread"));
    println!("end {}", basket.total.len());
    let _ = std::io::stdin().read(&mut [0]);
}
