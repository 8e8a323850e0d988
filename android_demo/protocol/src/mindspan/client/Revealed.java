package mindspan.client;

/** The end; only the last message is left, to be sent again if need be. */
public final class Revealed extends State<Void> {
  Revealed(Client client, byte[] message) {
    super(client, message);
  }
}
