// Allocates at the end of a chain of 100 calls, optimised and without frame pointers, under names that are known.
use std::io::{BufRead, Write};

#[inline(never)]
fn bottom(blocks: &mut Vec<Box<[u8; 4096]>>) {
    for i in 0..500u32 {
        blocks.push(std::hint::black_box(Box::new([i as u8; 4096])));
    }
}

struct Walker<'a> {
    blocks: &'a mut Vec<Box<[u8; 4096]>>,
}

impl Walker<'_> {
    #[inline(never)]
    fn descend(&mut self, depth: u32) -> u32 {
        if depth == 0 {
            bottom(self.blocks);
            return 0;
        }
        // The code after the call keeps it from becoming a jump.
        std::hint::black_box(self.descend(depth - 1)) + 1
    }
}

fn main() {
    let mut blocks = Vec::new();
    let depth = Walker { blocks: &mut blocks }.descend(100);
    assert_eq!(depth, 100);
    println!("ready");
    std::io::stdout().flush().unwrap();
    for line in std::io::stdin().lock().lines() {
        std::hint::black_box((&blocks, line.unwrap()));
    }
}
