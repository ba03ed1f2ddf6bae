// An indexer whose list of seen words only grows: the leak of docs/rust.md. Each document is dropped after its turn.
use std::thread::sleep;
use std::time::Duration;

struct Document {
    words: Vec<String>,
}

struct Index {
    seen: Vec<String>,
}

#[inline(never)]
fn read_document(number: u64) -> Document {
    Document { words: (0..400).map(|word| format!("word {word} of document {number}")).collect() }
}

#[inline(never)]
fn add_to_index(index: &mut Index, document: &Document) {
    index.seen.extend(document.words.iter().cloned()); // words that are there are added again
}

fn main() {
    let mut index = Index { seen: Vec::new() };
    println!("ready");
    for number in 0.. {
        let document = read_document(number);
        add_to_index(&mut index, &document);
        sleep(Duration::from_millis(10));
    }
}
