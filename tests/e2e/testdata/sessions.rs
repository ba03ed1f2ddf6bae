// A service whose memory is allocated by Rust's library, in a thread. It waits for the end of its standard input.
use std::collections::HashMap;
#[allow(dead_code)]
#[derive(Clone)]
struct Session {
    user: String,
    data: Vec<u32>,
}
struct Cache { map: HashMap<String, Session>, order: Vec<String> }
impl Cache {
    #[inline(never)]
    fn insert(&mut self, k: &str, s: Session) { self.order.push(k.to_string()); self.map.insert(k.to_string(), s); }
}
#[inline(never)]
fn make_session(i: u32) -> Session { Session { user: format!("a rather long user name {}", i), data: (0..100 + i % 50).collect() } }
#[inline(never)]
fn copy_some(c: &Cache) -> Vec<Session> { c.map.values().take(2000).cloned().collect() }
fn main() {
    let t = std::thread::spawn(|| {
        let mut c = Cache { map: HashMap::new(), order: Vec::new() };
        for i in 0..20000 { let s = make_session(i); c.insert(&format!("session key {}", i), s); }
        let v = copy_some(&c);
        println!("ready");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        assert!(v.len() + c.order.len() > 0);
    });
    t.join().unwrap();
}
