//! What downloads and object stores share about HTTP.

use std::io;

/// Whether a request failed because no server answers at its address, rather than in what a server
/// said: trying many more times only makes a person wait who has mistyped a name or is offline.
pub(crate) fn is_unreachable(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
        ureq::Error::Timeout(during) => {
            matches!(during, ureq::Timeout::Resolve | ureq::Timeout::Connect)
        }
        ureq::Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkDown
                | io::ErrorKind::NetworkUnreachable
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_answers_is_reachable() {
        let io = |kind| ureq::Error::Io(io::Error::from(kind));
        for unreachable in [
            ureq::Error::HostNotFound,
            ureq::Error::Timeout(ureq::Timeout::Connect),
            io(io::ErrorKind::ConnectionRefused),
        ] {
            assert!(is_unreachable(&unreachable), "{unreachable}");
        }
        for reachable in [
            ureq::Error::Timeout(ureq::Timeout::RecvBody),
            ureq::Error::StatusCode(503),
            io(io::ErrorKind::ConnectionReset),
        ] {
            assert!(!is_unreachable(&reachable), "{reachable}");
        }
    }
}
