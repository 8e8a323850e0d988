package mindspan.client;

import java.security.GeneralSecurityException;
import mindspan.boxes.X25519;
import mindspan.client.Refused.Kind;
import mindspan.messages.Advert;
import mindspan.messages.Context;
import mindspan.messages.Encoding;

/** What stays the same through the states of one round. */
public record Client(
    Member member,
    Context context,
    Encoding encoding,
    Policy policy,
    Memory memory,
    RandomBytes random,
    Secrets secrets) {

  /** R0: fresh keys for one round of the model that the client has trained on. */
  public static Advertised join(
      Member member,
      Context context,
      Encoding encoding,
      Policy policy,
      Memory memory,
      RandomBytes random)
      throws Refused {
    memory.checkNew(context.task(), context.round(), context.model());
    memory.keepRound(context.task(), context.round());
    Secrets secrets = new Secrets(random);
    byte[] share = X25519.publicKey(secrets.shareSecret);
    byte[] mask = X25519.publicKey(secrets.maskSecret);
    byte[] nonce = random.draw(16);
    Advert advert = Advert.signed(member.identity(), member.id(), context, share, mask, nonce);
    Client client = new Client(member, context, encoding, policy, memory, random, secrets);
    return new Advertised(client, advert);
  }

  long id() {
    return member.id();
  }

  /** The shared secret of a neighbour's key and one of ours. */
  static byte[] exchange(byte[] secret, byte[] publicKey) throws Refused {
    try {
      return X25519.exchange(secret, publicKey);
    } catch (GeneralSecurityException e) {
      throw new Refused(Kind.BadKey, "a key gives no shared secret");
    }
  }
}
