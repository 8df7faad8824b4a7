package greenwave.deadline.codec;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A dictionary of RFC 9651, read as strictly as it says.
 *
 * <p>Values are {@link Long} (integer), {@link Boolean}, {@link List} (inner list), or {@link #OTHER} for
 * every type that a budget does not use; parameters are parsed and discarded. Source: RFC 9651 §4.2.
 */
final class Dictionary {
    /** A value of another type. */
    static final Object OTHER = new Object();

    /** Result of {@link #peek} at the end; invalid in a text. */
    private static final char END = '\0';

    private final String text;
    private int at;

    Dictionary(String text) {
        this.text = text;
    }

    /** Keys and values; of a key that occurs twice, the last value. */
    Map<String, Object> parse() throws BadBudget {
        Map<String, Object> members = new LinkedHashMap<>();
        skip(" ");
        while (at < text.length()) {
            String key = key();
            Object value = true;
            if (taken('=')) {
                value = peek() == '(' ? innerList() : bareItem();
            }
            parameters();
            members.put(key, value);
            skip(" \t");
            if (at == text.length()) {
                return members;
            }
            expect(',');
            skip(" \t");
            if (at == text.length()) {
                throw BadBudget.GARBLED;
            }
        }
        return members;
    }

    private List<Object> innerList() throws BadBudget {
        List<Object> items = new ArrayList<>();
        expect('(');
        while (true) {
            skip(" ");
            if (taken(')')) {
                return items;
            }
            items.add(bareItem());
            parameters();
            if (peek() != ' ' && peek() != ')') {
                throw BadBudget.GARBLED;
            }
        }
    }

    private void parameters() throws BadBudget {
        while (taken(';')) {
            skip(" ");
            key();
            if (taken('=')) {
                bareItem();
            }
        }
    }

    private String key() throws BadBudget {
        int from = at;
        if (!isLower(peek()) && peek() != '*') {
            throw BadBudget.GARBLED;
        }
        while (isLower(peek()) || isDigit(peek()) || among("_-.*")) {
            at++;
        }
        return text.substring(from, at);
    }

    private Object bareItem() throws BadBudget {
        char first = peek();
        if (first == '-' || isDigit(first)) {
            return number();
        }
        if (isAlpha(first) || first == '*') {
            while (isAlpha(peek()) || isDigit(peek()) || among("!#$%&'*+-.^_`|~:/")) {
                at++;
            }
            return OTHER;
        }
        switch (first) {
            case '?':
                at++;
                if (!among("01")) {
                    throw BadBudget.GARBLED;
                }
                return next() == '1';
            case '"':
                return string();
            case ':':
                return bytes();
            case '@':
                at++;
                if (number() == OTHER) {
                    throw BadBudget.GARBLED;
                }
                return OTHER;
            case '%':
                return displayString();
            default:
                throw BadBudget.GARBLED;
        }
    }

    /**
     * An integer of at most fifteen digits, or a decimal: at most twelve digits, a point and one to three
     * digits.
     */
    private Object number() throws BadBudget {
        boolean negative = taken('-');
        long value = 0;
        int digits = 0;
        while (isDigit(peek())) {
            value = value * 10 + (next() - '0');
            digits++;
            if (digits > 15) {
                throw BadBudget.GARBLED;
            }
        }
        if (digits == 0) {
            throw BadBudget.GARBLED;
        }
        if (!taken('.')) {
            return negative ? -value : value;
        }
        int fraction = at;
        while (isDigit(peek())) {
            at++;
        }
        if (digits > 12 || at == fraction || at - fraction > 3) {
            throw BadBudget.GARBLED;
        }
        return OTHER;
    }

    private Object string() throws BadBudget {
        expect('"');
        while (!taken('"')) {
            char c = printable();
            if (c == '\\' && !taken('"') && !taken('\\')) {
                throw BadBudget.GARBLED;
            }
        }
        return OTHER;
    }

    private Object bytes() throws BadBudget {
        int end = text.indexOf(':', at + 1);
        if (end < 0) {
            throw BadBudget.GARBLED;
        }
        try {
            Base64.getDecoder().decode(text.substring(at + 1, end));
        } catch (IllegalArgumentException bad) {
            throw BadBudget.GARBLED;
        }
        at = end + 1;
        return OTHER;
    }

    private Object displayString() throws BadBudget {
        expect('%');
        expect('"');
        ByteBuffer bytes = ByteBuffer.allocate(text.length());
        while (!taken('"')) {
            char c = printable();
            bytes.put((byte) (c == '%' ? 16 * hex() + hex() : c));
        }
        try {
            StandardCharsets.UTF_8.newDecoder().decode(bytes.flip());
        } catch (CharacterCodingException bad) {
            throw BadBudget.GARBLED;
        }
        return OTHER;
    }

    private int hex() throws BadBudget {
        int digit = "0123456789abcdef".indexOf(next());
        if (digit < 0) {
            throw BadBudget.GARBLED;
        }
        return digit;
    }

    private char printable() throws BadBudget {
        char c = next();
        if (c < 0x20 || c > 0x7e) {
            throw BadBudget.GARBLED;
        }
        return c;
    }

    private char peek() {
        return at < text.length() ? text.charAt(at) : END;
    }

    private char next() {
        char c = peek();
        at++;
        return c;
    }

    private boolean taken(char c) {
        boolean there = at < text.length() && text.charAt(at) == c;
        at += there ? 1 : 0;
        return there;
    }

    private void expect(char c) throws BadBudget {
        if (!taken(c)) {
            throw BadBudget.GARBLED;
        }
    }

    private void skip(String spaces) {
        while (among(spaces)) {
            at++;
        }
    }

    private boolean among(String chars) {
        return at < text.length() && chars.indexOf(text.charAt(at)) >= 0;
    }

    private static boolean isLower(char c) {
        return c >= 'a' && c <= 'z';
    }

    private static boolean isAlpha(char c) {
        return isLower(c) || c >= 'A' && c <= 'Z';
    }

    private static boolean isDigit(char c) {
        return c >= '0' && c <= '9';
    }
}
