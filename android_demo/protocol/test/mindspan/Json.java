package mindspan;

import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Just enough of JSON to read the test vectors, which hold no escapes. */
final class Json {
  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** The object of a file. */
  static Fields parse(String text) {
    return (Fields) new Json(text).value();
  }

  /** An object: its members by name, each as what a test wants it to be. */
  static final class Fields {
    private final Map<String, Object> members = new LinkedHashMap<>();

    boolean has(String name) {
      return members.containsKey(name);
    }

    Iterable<String> names() {
      return members.keySet();
    }

    Fields fields(String name) {
      return (Fields) members.get(name);
    }

    String text(String name) {
      return (String) members.get(name);
    }

    byte[] hex(String name) {
      return HexFormat.of().parseHex(text(name));
    }

    double real(String name) {
      return Double.parseDouble((String) members.get(name));
    }

    long number(String name) {
      return Long.parseUnsignedLong((String) members.get(name));
    }

    List<?> list(String name) {
      return (List<?>) members.get(name);
    }

    long[] numbers(String name) {
      return list(name).stream().mapToLong(x -> Long.parseUnsignedLong((String) x)).toArray();
    }

    float[] floats(String name) {
      float[] all = new float[list(name).size()];
      for (int i = 0; i < all.length; i++) {
        all[i] = (float) Double.parseDouble((String) list(name).get(i));
      }
      return all;
    }
  }

  private Object value() {
    char first = next();
    if (first == '{') {
      at++;
      Fields fields = new Fields();
      while (next() != '}') {
        String name = word();
        next();
        at++; // the colon
        fields.members.put(name, value());
        skipComma();
      }
      at++;
      return fields;
    }
    if (first == '[') {
      at++;
      List<Object> items = new ArrayList<>();
      while (next() != ']') {
        items.add(value());
        skipComma();
      }
      at++;
      return items;
    }
    return first == '"' ? word() : literal();
  }

  private char next() {
    while (Character.isWhitespace(text.charAt(at))) {
      at++;
    }
    return text.charAt(at);
  }

  private void skipComma() {
    if (next() == ',') {
      at++;
    }
  }

  private String word() {
    int end = text.indexOf('"', at + 1);
    String word = text.substring(at + 1, end);
    at = end + 1;
    return word;
  }

  private String literal() {
    int start = at;
    while (",]} \n".indexOf(text.charAt(at)) < 0) {
      at++;
    }
    return text.substring(start, at);
  }
}
