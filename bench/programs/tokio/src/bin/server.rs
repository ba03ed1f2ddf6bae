//! A small HTTP service on tokio with two worker threads: PUT and GET of values, and reports about them.
//!
//! A request is read in one task, processed in another, and answered by the first: memory allocated in one thread is often
//! freed in the other. POST /quit ends it.
use bench_tokio::{read_message, Message};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, Notify};

type Store = Arc<Mutex<HashMap<String, Arc<Vec<u8>>>>>;

/// The values whose keys begin with `prefix`, with some figures of each, as JSON.
fn report(store: &Store, prefix: &str) -> Vec<u8> {
    let chosen: BTreeMap<String, Arc<Vec<u8>>> = {
        let store = store.lock().expect("no thread panics");
        store.iter().filter(|(key, _)| key.starts_with(prefix)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut rows: Vec<BTreeMap<&str, String>> = Vec::new();
    for (key, value) in &chosen {
        let mut row = BTreeMap::new();
        row.insert("key", format!("\"{key}\""));
        row.insert("bytes", value.len().to_string());
        row.insert("sum", value.iter().map(|byte| u64::from(*byte)).sum::<u64>().to_string());
        rows.push(row);
    }
    let mut text = String::from("[");
    for row in &rows {
        let cells: Vec<String> = row.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        write!(text, "{{{}}},", cells.join(", ")).expect("a string takes it");
    }
    text.push(']');
    text.into_bytes()
}

/// The status and the body of the answer.
fn answer(store: &Store, request: Message) -> (&'static str, Vec<u8>) {
    let words: Vec<String> = request.first.split(' ').map(str::to_string).collect();
    let (method, path) = (words[0].as_str(), words.get(1).map_or("", String::as_str));
    match (method, path.strip_prefix("/report/")) {
        ("GET", Some(prefix)) => ("200 OK", report(store, prefix)),
        ("PUT", _) => {
            let old = store.lock().expect("no thread panics").insert(path[1..].to_string(), Arc::new(request.body));
            (if old.is_some() { "200 OK" } else { "201 Created" }, Vec::new())
        }
        ("GET", None) => {
            let value = store.lock().expect("no thread panics").get(&path[1..]).cloned();
            value.map_or(("404 Not Found", Vec::new()), |value| ("200 OK", value.to_vec()))
        }
        _ => ("400 Bad Request", Vec::new()),
    }
}

async fn converse(stream: TcpStream, store: Store, quit: Arc<Notify>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (reading, mut writing) = stream.into_split();
    let mut reader = BufReader::new(reading);
    while let Some(request) = read_message(&mut reader).await? {
        if request.first.starts_with("POST /quit") {
            quit.notify_one();
            return Ok(());
        }
        let agent = request.headers.get("user-agent").cloned().unwrap_or_default();
        let (sender, receiver) = oneshot::channel();
        let its_store = store.clone();
        tokio::spawn(async move { sender.send(answer(&its_store, request)) });
        let (status, body) = receiver.await.expect("it sends an answer");
        let head = format!("HTTP/1.1 {status}\r\nServer: bench\r\nFor: {agent}\r\nContent-Length: {}\r\n\r\n", body.len());
        writing.write_all(&[head.as_bytes(), &body].concat()).await?;
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?.port());
        let (store, quit) = (Store::default(), Arc::new(Notify::new()));
        let accepting = {
            let quit = quit.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(converse(stream, store.clone(), quit.clone()));
                }
            })
        };
        quit.notified().await;
        accepting.abort();
        Ok(())
    })
}
