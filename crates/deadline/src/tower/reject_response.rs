//! What a request gets that is not served.
//!
//! Plain HTTP: 504 when its time does not suffice, 503 when too many wait,
//! with one line of text. gRPC: a response of headers alone with
//! DEADLINE_EXCEEDED or RESOURCE_EXHAUSTED.
//! Source: gRPC over HTTP/2, "Responses" (Trailers-Only); RFC 9110 §15.6.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::is_grpc;
use crate::Reason;

/// A request that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub reason: Reason,
    /// Whether it is a gRPC call, by its content type.
    pub grpc: bool,
}

impl Rejection {
    /// A request with `headers` is not served, for `reason`.
    #[must_use]
    pub fn new(reason: Reason, headers: &HeaderMap) -> Self {
        Self { reason, grpc: is_grpc(headers) }
    }

    /// 503 when too many wait, else 504.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.reason {
            Reason::Expired | Reason::Infeasible => StatusCode::GATEWAY_TIMEOUT,
            Reason::Full => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// RESOURCE_EXHAUSTED (8) when too many wait, else DEADLINE_EXCEEDED (4).
    #[must_use]
    pub fn grpc_code(&self) -> u16 {
        match self.reason {
            Reason::Expired | Reason::Infeasible => 4,
            Reason::Full => 8,
        }
    }
}

/// Makes the response for requests that are not served; any
/// `Fn(Rejection) -> Response<B>` does.
pub trait RejectResponse<B> {
    /// The response to a request refused as `refusal` says.
    fn respond(&self, rejection: Rejection) -> Response<B>;
}

impl<B, F: Fn(Rejection) -> Response<B>> RejectResponse<B> for F {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        self(rejection)
    }
}

/// One line of text, and for a gRPC call what [`Grpc`] answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text;

impl<B: Default + From<String>> RejectResponse<B> for Text {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        if rejection.grpc {
            return Grpc.respond(rejection);
        }
        let mut response = Response::new(B::from(format!("{}\n", rejection.reason)));
        *response.status_mut() = rejection.status();
        let text = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, text);
        response
    }
}

/// A gRPC status without a body, for servers that speak nothing else: tonic's
/// body is not made from text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grpc;

impl<B: Default> RejectResponse<B> for Grpc {
    fn respond(&self, rejection: Rejection) -> Response<B> {
        let mut response = Response::new(B::default());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        headers.insert(STATUS, HeaderValue::from(rejection.grpc_code()));
        let message = HeaderValue::try_from(rejection.reason.to_string());
        headers.insert(MESSAGE, message.expect("reasons are plain words, which need no escape"));
        response
    }
}

/// Where a gRPC response says how it went.
pub(super) const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
