//! mini-redis as its authors published it, on two threads. Prints its port; ends on SIGTERM.
use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};

fn main() -> mini_redis::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        println!("{}", listener.local_addr()?.port());
        let mut told = signal(SignalKind::terminate())?;
        let _ = mini_redis::server::run(listener, async move { told.recv().await }).await;
        Ok(())
    })
}
