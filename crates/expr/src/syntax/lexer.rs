//! From text to tokens, one at a time.

use super::literal::{self, LiteralError};
use crate::span::{Problem, Span};

/// One token; names and literals refer to the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    End,
    Ident(&'s str),
    /// A field name between backticks.
    Quoted(&'s str),
    Int(&'s str),
    Uint(&'s str),
    Double(&'s str),
    String(String),
    Bytes(Vec<u8>),
    True,
    False,
    Null,
    In,
    Symbol(Symbol),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    Dot,
    Comma,
    Colon,
    Question,
    OpenParen,
    CloseParen,
    OpenBracket,
    CloseBracket,
    OpenBrace,
    CloseBrace,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Not,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    Equals,
    NotEquals,
    And,
    Or,
}

pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

const SYMBOLS: [(&str, Symbol); 24] = [
    ("&&", Symbol::And),
    ("||", Symbol::Or),
    ("<=", Symbol::LessEquals),
    (">=", Symbol::GreaterEquals),
    ("==", Symbol::Equals),
    ("!=", Symbol::NotEquals),
    (".", Symbol::Dot),
    (",", Symbol::Comma),
    (":", Symbol::Colon),
    ("?", Symbol::Question),
    ("(", Symbol::OpenParen),
    (")", Symbol::CloseParen),
    ("[", Symbol::OpenBracket),
    ("]", Symbol::CloseBracket),
    ("{", Symbol::OpenBrace),
    ("}", Symbol::CloseBrace),
    ("+", Symbol::Plus),
    ("-", Symbol::Minus),
    ("*", Symbol::Star),
    ("/", Symbol::Slash),
    ("%", Symbol::Percent),
    ("!", Symbol::Not),
    ("<", Symbol::Less),
    (">", Symbol::Greater),
];

// === impl Symbol ===

impl Symbol {
    pub(super) fn text(self) -> &'static str {
        SYMBOLS
            .iter()
            .find(|(_, symbol)| *symbol == self)
            .map_or("", |(text, _)| text)
    }
}

// === impl Token ===

impl Token<'_> {
    /// The token in words, for messages.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::End => "end of the expression".to_owned(),
            Self::Ident(name) => format!("'{name}'"),
            Self::Quoted(name) => format!("'`{name}`'"),
            Self::Int(text) | Self::Uint(text) | Self::Double(text) => format!("number {text}"),
            Self::String(_) => "string".to_owned(),
            Self::Bytes(_) => "bytes".to_owned(),
            Self::True => "'true'".to_owned(),
            Self::False => "'false'".to_owned(),
            Self::Null => "'null'".to_owned(),
            Self::In => "'in'".to_owned(),
            Self::Symbol(symbol) => format!("'{}'", symbol.text()),
        }
    }
}

// === impl Lexer ===

impl<'s> Lexer<'s> {
    /// Reads `source` from `at` on.
    pub(super) fn new(source: &'s str, at: usize) -> Self {
        Self { source, at }
    }

    /// The next token and where it is.
    pub(super) fn next(&mut self) -> Result<(Token<'s>, Span), Problem> {
        self.skip_blank();
        let start = self.at;
        let bytes = self.source.as_bytes();
        let Some(&first) = bytes.get(start) else {
            return Ok((Token::End, Span::new(start, start)));
        };
        let token = match first {
            b'0'..=b'9' => self.number()?,
            b'.' if bytes.get(start + 1).is_some_and(u8::is_ascii_digit) => self.number()?,
            b'"' | b'\'' => self.text(start, false, false)?,
            b'`' => self.quoted()?,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => match self.text_prefix() {
                Some((at, raw, bytes)) => self.text(at, raw, bytes)?,
                None => self.name(),
            },
            _ => self.symbol()?,
        };
        Ok((token, Span::new(start, self.at)))
    }

    fn skip_blank(&mut self) {
        let bytes = self.source.as_bytes();
        loop {
            match bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\n' | 0x0c) => self.at += 1,
                Some(b'/') if bytes.get(self.at + 1) == Some(&b'/') => {
                    let rest = &bytes[self.at..];
                    self.at += rest
                        .iter()
                        .position(|&byte| byte == b'\n')
                        .unwrap_or(rest.len());
                }
                Some(_) | None => return,
            }
        }
    }

    fn problem(&self, start: usize, message: impl Into<String>) -> Problem {
        Problem {
            span: Span::new(start, self.at.max(start + 1)),
            message: message.into(),
        }
    }

    fn symbol(&mut self) -> Result<Token<'s>, Problem> {
        let rest = &self.source[self.at..];
        for (text, symbol) in SYMBOLS {
            if rest.starts_with(text) {
                self.at += text.len();
                return Ok(Token::Symbol(symbol));
            }
        }
        let start = self.at;
        let found = rest.chars().next().unwrap_or(' ');
        self.at += found.len_utf8();
        Err(self.problem(
            start,
            format!("Syntax error: token recognition error at: '{found}'"),
        ))
    }

    fn name(&mut self) -> Token<'s> {
        let rest = &self.source[self.at..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.at += end;
        match &rest[..end] {
            "true" => Token::True,
            "false" => Token::False,
            "null" => Token::Null,
            "in" => Token::In,
            name => Token::Ident(name),
        }
    }

    fn quoted(&mut self) -> Result<Token<'s>, Problem> {
        let start = self.at;
        let rest = &self.source[start + 1..];
        let allowed =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
        let end = rest.find(|c: char| !allowed(c)).unwrap_or(rest.len());
        self.at = start + 1 + end;
        if end == 0 || !rest[end..].starts_with('`') {
            return Err(self.problem(
                start,
                "Syntax error: unterminated or invalid field name in backticks",
            ));
        }
        self.at += 1;
        Ok(Token::Quoted(&rest[..end]))
    }

    fn number(&mut self) -> Result<Token<'s>, Problem> {
        let start = self.at;
        let rest = &self.source[start..];
        let bytes = rest.as_bytes();
        let digits = |from: usize| {
            bytes[from..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count()
        };
        let mut end;
        let mut double = false;
        if rest.starts_with("0x") || rest.starts_with("0X") {
            end = 2 + bytes[2..]
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count();
            if end == 2 {
                end = 1;
            }
        } else {
            end = digits(0);
            if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
                double = true;
                end += 1 + digits(end + 1);
            }
            if matches!(bytes.get(end), Some(b'e' | b'E')) {
                let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
                let exponent = digits((end + 1 + sign).min(bytes.len()));
                if exponent > 0 {
                    double = true;
                    end += 1 + sign + exponent;
                }
            }
        }
        self.at = start + end;
        let text = &rest[..end];
        if double {
            return Ok(Token::Double(text));
        }
        if matches!(bytes.get(end), Some(b'u' | b'U')) {
            self.at += 1;
            return Ok(Token::Uint(text));
        }
        Ok(Token::Int(text))
    }

    /// Where the quotes begin, when what follows is a string with a prefix.
    fn text_prefix(&self) -> Option<(usize, bool, bool)> {
        let bytes = &self.source.as_bytes()[self.at..];
        let is_quote = |at: usize| matches!(bytes.get(at), Some(b'"' | b'\''));
        match (bytes[0], bytes.get(1)) {
            (b'r' | b'R', _) if is_quote(1) => Some((self.at + 1, true, false)),
            (b'b' | b'B', _) if is_quote(1) => Some((self.at + 1, false, true)),
            (b'b' | b'B', Some(b'r' | b'R')) if is_quote(2) => Some((self.at + 2, true, true)),
            _ => None,
        }
    }

    /// A string or bytes whose quotes begin at `at`.
    fn text(&mut self, at: usize, raw: bool, bytes: bool) -> Result<Token<'s>, Problem> {
        let start = self.at;
        let rest = &self.source[at..];
        let quote = &rest[..1];
        let triple = quote.repeat(3);
        let (open, long) = if rest.starts_with(&triple) {
            (triple.as_str(), true)
        } else {
            (quote, false)
        };
        let body = &rest[open.len()..];
        let Some(end) = closing(body, open, raw, long) else {
            self.at = self.source.len();
            return Err(self.problem(start, "Syntax error: unterminated string"));
        };
        self.at = at + open.len() + end + open.len();
        let body = &body[..end];
        let read = if bytes {
            literal::bytes(body, raw).map(Token::Bytes)
        } else {
            literal::string(body, raw).map(Token::String)
        };
        read.map_err(|LiteralError(message)| self.problem(start, message))
    }
}

/// Where the body of a string ends.
fn closing(body: &str, close: &str, raw: bool, long: bool) -> Option<usize> {
    let bytes = body.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if body.as_bytes()[at..].starts_with(close.as_bytes()) {
            return Some(at);
        }
        match bytes[at] {
            b'\\' if !raw => at += 2,
            b'\n' | b'\r' if !long => return None,
            _ => at += 1,
        }
    }
    None
}
