//! Requests over TCP in virtual time: a server's stack and a client's.

use net::device::memory::pair;
use queueing::{Priority, Time};
use runtime::task::{JoinHandle, TaskStep};

use super::*;

/// Repeats a request's id as often as its kind says; kind 0 is invalid.
struct Repeat;

impl Service for Repeat {
    async fn serve(&self, request: &RequestHeader, body: &[u8], answer: &mut Vec<u8>) -> Result<(), Refused> {
        if request.kind == 0 {
            return Err(Refused("kind 0 is outside 1..=255".to_owned()));
        }
        assert_eq!(body.len() + REQUEST_LEN_MIN, request.length as usize);
        (0..request.kind).for_each(|_| answer.extend_from_slice(&request.id.to_be_bytes()));
        Ok(())
    }

    fn check(&self) -> Check {
        Check { holds: true, says: String::new() }
    }
}

fn request(id: u64, kind: u8, length: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    RequestHeader { id, kind, priority: Priority::LOWEST, length, service: Span::ZERO }.encode(&mut bytes);
    bytes
}

/// The service's answer to `bytes` until the connection ends, and the number of refused requests.
fn answer(bytes: Vec<u8>) -> (io::Result<Vec<u8>>, u64) {
    let tcp =
        |host: u8| net::stack::Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
    let [mut server, mut client] = [1, 2].map(|host| TaskShard::new(Config::shared(tcp(host))));
    let (mut near, mut far) = pair(512, 1514);
    let served = shared(Repeat, None);
    let listener = server.handle().listen(7000, net::stack::ListenOptions::default()).unwrap();
    server.spawn(listen(listener, served.clone()));
    let asked: JoinHandle<io::Result<Vec<u8>>> = client.spawn(async move {
        let mut stream = TcpStream::connect(([10, 0, 0, 1], 7000).into()).await?;
        stream.write_all(&bytes).await?;
        stream.shutdown().await?;
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await?;
        Ok(got)
    });
    let mut now = Time::from_nanos(1);
    for _ in 0..1_000_000 {
        now += Span::from_micros(10);
        while server.step(now, &mut near) != TaskStep::Idle {}
        while client.step(now, &mut far) != TaskStep::Idle {}
        if let Some(result) = asked.try_take() {
            let refused = served.tally().refused;
            return (result.expect("the task ends"), refused);
        }
    }
    panic!("no end after ten seconds");
}

#[test]
fn responses_are_in_order_and_match_their_requests() {
    let asked = [(5, 1, 32), (6, 200, 5000), (7, 3, 65_536)];
    let bytes = asked.into_iter().flat_map(|(id, kind, length)| request(id, kind, length)).collect();
    let (got, refused) = answer(bytes);
    let got = got.unwrap();
    let mut rest = &got[..];
    for (id, kind, _) in asked {
        let Decoded::Complete { value, len } = TimedResponse::decode(rest) else {
            panic!("{} bytes", rest.len())
        };
        assert_eq!((value.id, value.kind, len), (id, kind, RESPONSE_LEN + usize::from(kind) * 8));
        assert!(rest[RESPONSE_LEN..len].chunks(8).all(|chunk| chunk == id.to_be_bytes()));
        rest = &rest[len..];
    }
    assert_eq!((rest.len(), refused), (0, 0));
}

#[test]
fn malformed_requests_are_counted_and_not_answered() {
    for bytes in [request(1, 0, 32), b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let (got, refused) = answer(bytes);
        assert!(got.is_ok_and(|got| got.is_empty()), "the connection ends without an answer");
        assert_eq!(refused, 1);
    }
    assert_eq!(answer(request(1, 1, 32)[..20].to_vec()).1, 0, "half a request is none");
}
