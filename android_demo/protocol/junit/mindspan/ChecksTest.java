package mindspan;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The checks as tests of JUnit 5; the property "golden" names the folder of the vectors. */
class ChecksTest {
  @TestFactory
  List<DynamicTest> checks() throws IOException {
    return Checks.all(Path.of(System.getProperty("golden"))).entrySet().stream()
        .map(check -> DynamicTest.dynamicTest(check.getKey(), () -> check.getValue().run()))
        .collect(Collectors.toList());
  }
}
