//! Clients and an echo server on one tokio runtime: tasks, channels and buffers that travel between threads.
//! Each reply is checked; the totals printed at the end are arithmetic.
use std::collections::HashMap;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, Mutex};

const CLIENTS: usize = 64;
const MESSAGES: usize = 200;
const MEAN_BYTES: usize = 4096;

/// Sizes around the mean, so that the sum over all messages of a client is exact.
fn message(client: usize, number: usize) -> Vec<u8> {
    let away = (number / 2 * 20) % MEAN_BYTES;
    let length = if number % 2 == 0 { MEAN_BYTES + away } else { MEAN_BYTES - away };
    vec![(client * 31 + number) as u8; length]
}

async fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?; // small writes must not wait for acknowledgements
    loop {
        let length = match stream.read_u32().await {
            Ok(length) => length as usize,
            Err(_) => return Ok(()), // the client is done
        };
        let mut body = vec![0u8; length]; // fresh for each request, like a server of messages does
        stream.read_exact(&mut body).await?;
        stream.write_u32(length as u32).await?;
        stream.write_all(&body).await?;
    }
}

async fn client(number: usize, port: u16, sink: mpsc::Sender<Vec<u8>>) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    for i in 0..MESSAGES {
        let sent = message(number, i);
        stream.write_u32(sent.len() as u32).await?;
        stream.write_all(&sent).await?;
        let mut back = vec![0u8; stream.read_u32().await? as usize];
        stream.read_exact(&mut back).await?;
        assert_eq!(sent, back, "client {number}, message {i}");
        sink.send(back).await.expect("the collector listens");
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(echo(stream));
            }
        });
        let (sink, mut source) = mpsc::channel::<Vec<u8>>(32);
        let clients: Vec<_> = (0..CLIENTS).map(|number| tokio::spawn(client(number, port, sink.clone()))).collect();
        drop(sink);
        let (mut messages, mut bytes) = (0, 0);
        while let Some(body) = source.recv().await {
            messages += 1;
            bytes += body.len();
        }
        for one in clients {
            one.await.expect("no client panics")?;
        }

        // Blocking threads that come and go, each filling a map that another thread drops.
        let sums = Arc::new(Mutex::new(Vec::new()));
        let blocking: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let sums = sums.clone();
                tokio::task::spawn_blocking(move || {
                    let map: HashMap<String, usize> = (0..number).map(|i| (format!("key {number} {i}"), i)).collect();
                    sums.blocking_lock().push(map);
                })
            })
            .collect();
        for one in blocking {
            one.await.expect("no thread panics");
        }
        let total: usize = sums.lock().await.iter().map(HashMap::len).sum();
        println!("{CLIENTS} clients, {messages} messages, {bytes} bytes, {total} sums");
        Ok(())
    })
}
