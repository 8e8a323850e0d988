package mindspan.messages;

/** Bytes that are not the message they claim to be. */
public final class Malformed extends Exception {
  private static final long serialVersionUID = 1;

  public Malformed(String message) {
    super(message);
  }
}
