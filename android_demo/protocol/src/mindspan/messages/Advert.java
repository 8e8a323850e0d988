package mindspan.messages;

import mindspan.boxes.Ed25519;
import mindspan.boxes.Identity;
import mindspan.boxes.Labels;

/** R0 up, 148 bytes: a client's two fresh keys for one round. */
public record Advert(
    long client, byte[] shareKey, byte[] maskKey, byte[] nonce, byte[] signature) {
  public static Advert read(Reader in) throws Malformed {
    return new Advert(in.u32(), in.take(32), in.take(32), in.take(16), in.take(64));
  }

  public static Advert signed(
      Identity identity, long client, Context context, byte[] share, byte[] mask, byte[] nonce) {
    Advert unsigned = new Advert(client, share, mask, nonce, new byte[0]);
    byte[] signature = identity.sign(Labels.ADVERT, signedBytes(context, unsigned));
    return new Advert(client, share, mask, nonce, signature);
  }

  public boolean isSignedBy(byte[] publicKey, Context context) {
    Advert unsigned = new Advert(client, shareKey, maskKey, nonce, new byte[0]);
    byte[] message = signedBytes(context, unsigned);
    return Ed25519.verifies(publicKey, Labels.ADVERT, message, signature);
  }

  public byte[] bytes() {
    Writer out = new Writer().u32(client).put(shareKey).put(maskKey);
    return out.put(nonce).put(signature).bytes();
  }

  private static byte[] signedBytes(Context context, Advert unsigned) {
    return new Writer().text(context.task()).u64(context.round()).put(unsigned.bytes()).bytes();
  }
}
