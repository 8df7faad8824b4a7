//! Response to a rejected request.
//!
//! The status of its [`Cause`], which is also in the field [`Cause::HEADER`]. Plain HTTP: one line of
//! text. gRPC: a headers-only response.
//! Source: gRPC over HTTP/2, "Responses" (Trailers-Only); RFC 9110 §15.6.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::{CAUSE, OutOfTime, is_grpc};
use crate::Cause;

/// Rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Cause.
    pub cause: Cause,
    /// True for a gRPC call, by content type.
    pub grpc: bool,
}

impl Rejection {
    /// Rejection of a request with `headers` for `cause`, which may be a [`Reason`](crate::Reason).
    #[must_use]
    pub fn new(cause: impl Into<Cause>, headers: &HeaderMap) -> Self {
        Self { cause: cause.into(), grpc: is_grpc(headers) }
    }

    /// [HTTP status](Cause::http_status).
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.cause.http_status()).expect("a cause has a valid status")
    }

    /// [gRPC status code](Cause::grpc_code).
    #[must_use]
    pub fn grpc_code(&self) -> u16 {
        self.cause.grpc_code()
    }
}

/// Factory of responses to rejected requests; implemented by `Fn(Rejection) -> Response<B>`.
///
/// The layer adds the field [`Cause::HEADER`]. A handler uses [`Text`] or [`Grpc`] to answer that a call of its
/// own has failed: `Text.respond(Rejection::new(error_cause(&*error), &headers))`.
pub trait RejectResponse<B> {
    /// Response to the request that `rejection` describes.
    fn respond(&self, rejection: Rejection) -> Response<B>;
}

impl<B, F: Fn(Rejection) -> Response<B>> RejectResponse<B> for F {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        self(rejection)
    }
}

/// One line of text; for a gRPC call the response of [`Grpc`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text;

impl<B: Default + From<String>> RejectResponse<B> for Text {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        if rejection.grpc {
            return Grpc.respond(rejection);
        }
        let mut response = Response::new(B::from(format!("{}\n", rejection.cause)));
        *response.status_mut() = rejection.status();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, text);
        write_cause(response.headers_mut(), rejection.cause);
        response
    }
}

/// gRPC status without a body, for servers that speak only gRPC: tonic's body cannot be made
/// from text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grpc;

impl<B: Default> RejectResponse<B> for Grpc {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(STATUS, HeaderValue::from(rejection.grpc_code()));
        let message = HeaderValue::try_from(rejection.cause.to_string());
        headers.insert(MESSAGE, message.expect("causes are ASCII and need no escape"));
        write_cause(headers, rejection.cause);
        response
    }
}

/// Cause of a called service's `response`: the one in its field [`Cause::HEADER`], else a timeout or a failure
/// by its status. `None` for an answer of the service. A gRPC status in trailers is not seen.
#[must_use]
pub fn response_cause<B>(response: &Response<B>) -> Option<Cause> {
    let headers = response.headers();
    let of_grpc = || {
        let code = headers.get(STATUS)?.to_str().ok()?.parse().ok()?;
        Cause::of_grpc_code(code)
    };
    read_cause(headers).or_else(|| Cause::of_http_status(response.status().as_u16())).or_else(of_grpc)
}

/// Cause of a call that failed with `error`: that of an [`OutOfTime`] in it, else a failure.
#[must_use]
pub fn error_cause(error: &(dyn std::error::Error + 'static)) -> Cause {
    let mut errors = std::iter::successors(Some(error), |error| error.source());
    let late = errors.find_map(|error| error.downcast_ref::<OutOfTime>());
    late.map_or(Cause::UpstreamFailed, OutOfTime::cause)
}

/// Cause in the field of `headers`.
pub(super) fn read_cause(headers: &HeaderMap) -> Option<Cause> {
    let mut lines = headers.get_all(&CAUSE).iter();
    let line = lines.next()?.to_str().ok()?;
    // Two lines are a list, which is not a token.
    Cause::parse(line).filter(|_| lines.next().is_none())
}

/// Sets the field of `headers` to `cause`.
pub(super) fn write_cause(headers: &mut HeaderMap, cause: Cause) {
    headers.insert(&CAUSE, HeaderValue::from_static(cause.name()));
}

/// Header with the status code of a gRPC response.
pub(super) const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
