//! The part of HTTP/1.1 that the server and its client need: a head of header lines and a body of a known length.
use std::collections::HashMap;
use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};

pub struct Message {
    /// The request's or the answer's first line.
    pub first: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

/// One message; None where the other side has closed the connection between two messages.
pub async fn read_message<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> Result<Option<Message>> {
    let first = read_line(reader).await?;
    if first.is_empty() {
        return Ok(None);
    }
    let mut headers = HashMap::new();
    loop {
        let line = read_line(reader).await?;
        match line.split_once(':') {
            Some((name, value)) => headers.insert(name.trim().to_lowercase(), value.trim().to_string()),
            None => break,
        };
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0u8; length];
    reader.read_exact(&mut body).await?;
    Ok(Some(Message { first, headers, body }))
}

async fn read_line<R: AsyncRead + Unpin>(reader: &mut BufReader<R>) -> Result<String> {
    use tokio::io::AsyncBufReadExt;
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line).await?;
    let text = String::from_utf8(line).map_err(|_| Error::from(ErrorKind::InvalidData))?;
    Ok(text.trim_end().to_string())
}
