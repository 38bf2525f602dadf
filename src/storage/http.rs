//! HTTP code shared by downloads and object stores.

use std::io;

/// Whether an unanswered request may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chance {
    /// No server answers at its address, rather than in what a server said: trying many more times
    /// only makes a person wait who has mistyped a name or is offline.
    Unreachable,
    /// The cause may be temporary.
    Passing,
    /// It would fail as well.
    Never,
}

/// The chance of a request which failed like this. `answered` says whether the server has answered
/// before: then its answers are HTTP, and anything else is the rest of one that was cut or too
/// long.
pub(crate) fn chance(error: &ureq::Error, answered: bool) -> Chance {
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Chance::Unreachable,
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            Chance::Unreachable
        }
        ureq::Error::Timeout(_) => Chance::Passing,
        ureq::Error::Io(error) => chance_of_io(error, answered),
        ureq::Error::Protocol(_) if answered => Chance::Passing,
        // Certificates, addresses, redirects, and answers that are no HTTP.
        _ => Chance::Never,
    }
}

fn chance_of_io(error: &io::Error, answered: bool) -> Chance {
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkDown
        | io::ErrorKind::NetworkUnreachable => Chance::Unreachable,
        // All that TLS says of a server: a certificate that is not its own or has expired, a version
        // that it does not speak, or that it speaks no TLS at all.
        io::ErrorKind::InvalidData if !answered || is_certificate(error) => Chance::Never,
        _ if is_unknown_host(error) => Chance::Unreachable,
        _ => Chance::Passing,
    }
}

fn is_certificate(error: &io::Error) -> bool {
    error.to_string().contains("certificate")
}

/// Whether no address was found. The system's kinds of errors have none for it.
fn is_unknown_host(error: &io::Error) -> bool {
    error.to_string().starts_with("failed to lookup address information")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_chance() {
        use Chance::{Never, Passing, Unreachable};
        let io = |kind| ureq::Error::Io(io::Error::from(kind));
        let said = |kind, message: &str| ureq::Error::Io(io::Error::new(kind, message.to_owned()));
        let unknown = "failed to lookup address information: Name or service not known";
        for (error, first, later) in [
            (ureq::Error::HostNotFound, Unreachable, Unreachable),
            (ureq::Error::ConnectionFailed, Unreachable, Unreachable),
            (said(io::ErrorKind::Other, unknown), Unreachable, Unreachable),
            (ureq::Error::Timeout(ureq::Timeout::Connect), Unreachable, Unreachable),
            (ureq::Error::Timeout(ureq::Timeout::Resolve), Unreachable, Unreachable),
            (io(io::ErrorKind::ConnectionRefused), Unreachable, Unreachable),
            (io(io::ErrorKind::NetworkUnreachable), Unreachable, Unreachable),
            (ureq::Error::Timeout(ureq::Timeout::RecvBody), Passing, Passing),
            (io(io::ErrorKind::ConnectionReset), Passing, Passing),
            (io(io::ErrorKind::UnexpectedEof), Passing, Passing),
            (io(io::ErrorKind::BrokenPipe), Passing, Passing),
            (
                said(io::ErrorKind::InvalidData, "received fatal alert: InternalError"),
                Never,
                Passing,
            ),
            (said(io::ErrorKind::InvalidData, "invalid peer certificate: Expired"), Never, Never),
            (ureq::Error::Tls("no dns name"), Never, Never),
            (ureq::Error::BadUri("x".to_owned()), Never, Never),
            (ureq::Error::RequireHttpsOnly("http://h".to_owned()), Never, Never),
            (ureq::Error::TooManyRedirects, Never, Never),
            (ureq::Error::RedirectFailed, Never, Never),
            (ureq::Error::StatusCode(404), Never, Never),
        ] {
            assert_eq!(chance(&error, false), first, "{error}");
            assert_eq!(chance(&error, true), later, "{error}");
        }
    }
}
