//! client PORT [CONNECTIONS REQUESTS]: sends requests to the server, checks every answer, prints the number of answers and their 99th
//! percentile.
//! client PORT quit: ends the server.
use bench_tokio::read_message;
use std::io::Result;
use std::time::Instant;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

const KEYS: usize = 100; // of each connection

fn value(connection: usize, number: usize) -> Vec<u8> {
    vec![(connection + number) as u8; 64 + (number * 7919 + connection * 31) % 8000]
}

/// Latency of each answer, in microseconds.
async fn ask(connection: usize, port: u16, requests: usize) -> Result<Vec<u64>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (reading, mut writing) = stream.into_split();
    let mut reader = BufReader::new(reading);
    let mut stored = vec![Vec::new(); KEYS];
    let mut took = Vec::with_capacity(requests);
    for number in 0..requests {
        let key = number * 37 % KEYS;
        let (first, body) = match number % 20 {
            19 => (format!("GET /report/key-{connection}-1"), Vec::new()),
            odd if odd % 2 == 1 && !stored[key].is_empty() => (format!("GET /key-{connection}-{key}"), Vec::new()),
            _ => (format!("PUT /key-{connection}-{key}"), value(connection, number)),
        };
        let head = format!("{first} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: client {connection}\r\nAccept: */*\r\n\
                            Accept-Language: en\r\nX-Request-Id: {connection}-{number}\r\nContent-Length: {}\r\n\r\n", body.len());
        let begin = Instant::now();
        writing.write_all(&[head.as_bytes(), &body].concat()).await?;
        let answer = read_message(&mut reader).await?.expect("the server answers");
        took.push(begin.elapsed().as_micros() as u64);
        assert!(answer.first.starts_with("HTTP/1.1 20"), "{}: {}", first, answer.first);
        if first.starts_with("PUT") {
            stored[key] = body;
        } else if !first.starts_with("GET /report") {
            assert!(answer.body == stored[key], "{first}: not what was stored");
        }
    }
    Ok(took)
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(otherwise);
    let port = number(0, 0) as u16;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        if words.get(1).is_some_and(|word| word == "quit") {
            return TcpStream::connect(("127.0.0.1", port)).await?.write_all(b"POST /quit HTTP/1.1\r\n\r\n").await;
        }
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
