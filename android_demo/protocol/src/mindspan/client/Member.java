package mindspan.client;

import mindspan.boxes.Identity;
import mindspan.messages.Certificate;

/** Who takes part: a certified identity, and the key of the authority that it trusts. */
public record Member(Identity identity, Certificate certificate, byte[] authority) {
  public long id() {
    return certificate.client();
  }
}
