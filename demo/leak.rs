// A program that leaks in two functions, a little over 1 MiB a second each, beside one that allocates and frees.
use std::thread::sleep;
use std::time::Duration;

struct Session {
    name: String,
    body: Vec<u8>,
}

#[inline(never)]
fn leaky_cache(kept: &mut Vec<Vec<u8>>) {
    kept.push(vec![1; 100 << 10]);
}

#[inline(never)]
fn leaky_sessions(kept: &mut Vec<Box<Session>>) {
    for number in 0..100 {
        kept.push(Box::new(Session { name: format!("session {number} of a user with a long name"), body: vec![1; 1000] }));
    }
}

#[inline(never)]
fn steady_work() -> usize {
    let some: Vec<String> = (0..1000).map(|number| "x".repeat(64 + number)).collect();
    some.iter().map(String::len).sum()
}

fn main() {
    let base: Vec<Vec<u8>> = (0..20_000).map(|_| vec![1; 1000]).collect();
    let (mut blocks, mut sessions) = (Vec::new(), Vec::new());
    println!("ready");
    let mut done = base.len();
    loop {
        leaky_cache(&mut blocks);
        leaky_sessions(&mut sessions);
        done += steady_work() + sessions.last().map_or(0, |last| last.name.len() + last.body.len());
        std::hint::black_box(done);
        sleep(Duration::from_millis(80));
    }
}
