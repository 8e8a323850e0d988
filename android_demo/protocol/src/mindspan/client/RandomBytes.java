package mindspan.client;

/** Where randomness comes from; a test gives its own. */
public interface RandomBytes {
  byte[] draw(int size);
}
