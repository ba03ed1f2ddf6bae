//! client PORT [CONNECTIONS REQUESTS]: stores values and reads them with mini-redis's own client, checks every answer, prints the
//! number of answers and their 99th percentile.
use bytes::Bytes;
use std::time::Instant;

const KEYS: usize = 100; // of each connection

fn value(connection: usize, number: usize) -> Bytes {
    vec![(connection + number) as u8; 64 + (number * 7919 + connection * 31) % 8000].into()
}

/// Latency of each answer, in microseconds.
async fn ask(connection: usize, port: u16, requests: usize) -> mini_redis::Result<Vec<u64>> {
    let mut client = mini_redis::client::connect(("127.0.0.1", port)).await?;
    let mut stored: Vec<Option<Bytes>> = vec![None; KEYS];
    let mut took = Vec::with_capacity(requests);
    for number in 0..requests {
        let at = number * 37 % KEYS;
        let key = format!("key-{connection}-{at}");
        let begin = Instant::now();
        if number % 2 == 1 && stored[at].is_some() {
            let answer = client.get(&key).await?;
            took.push(begin.elapsed().as_micros() as u64);
            assert!(answer == stored[at], "{key}: not what was stored");
        } else {
            let fresh = value(connection, number);
            client.set(&key, fresh.clone()).await?;
            took.push(begin.elapsed().as_micros() as u64);
            stored[at] = Some(fresh);
        }
    }
    Ok(took)
}

fn main() -> mini_redis::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise);
    let port = number(0, 0) as u16;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let asking: Vec<_> = (0..number(1, 64)).map(|one| tokio::spawn(ask(one, port, number(2, 1000)))).collect();
        let mut took = Vec::new();
        for one in asking {
            took.append(&mut one.await.expect("no connection panics")?);
        }
        took.sort_unstable();
        println!("answers {}\np99_us {}", took.len(), took[took.len() * 99 / 100]);
        Ok(())
    })
}
