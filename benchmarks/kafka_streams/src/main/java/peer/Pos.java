package peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The whole POS topology: shipments, loyalty notifications with running totals, masked line items.
 *
 * <p>Arguments: bootstrap servers, state directory, number of invoices in the topic, number of prime invoices among
 * them, guarantee (at_least_once or exactly_once_v2), the topic, number of invoices to warm up with. Prints one JSON
 * line: {"records": N, "millis": T}, where N are the invoices after those of the warm-up, and T runs from the first of
 * them consumed until all are through both sub-topologies.
 */
public final class Pos {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final List<String> INVOICE_FIELDS =
      List.of("InvoiceNumber", "CreatedTime", "StoreID", "PosID", "CustomerType", "PaymentMethod", "DeliveryType");
  private static final List<String> ADDRESS_FIELDS = List.of("City", "State", "PinCode");
  private static final double LOYALTY_FACTOR = 0.02;
  private static final String REWARDS = "rewards";

  private Pos() {}

  /** Adds each notification's points to the customer's total. */
  private static final class RunningTotal extends ContextualProcessor<String, JsonNode, String, JsonNode> {
    private KeyValueStore<String, Double> totals;

    @Override
    public void init(ProcessorContext<String, JsonNode> context) {
      super.init(context);
      totals = context.getStateStore(REWARDS);
    }

    @Override
    public void process(Record<String, JsonNode> record) {
      Double before = totals.get(record.key());
      double total = (before == null ? 0 : before) + record.value().get("EarnedLoyaltyPoints").asDouble();
      totals.put(record.key(), total);
      ((ObjectNode) record.value()).put("TotalLoyaltyPoints", total);
      context().forward(record);
    }
  }

  /** Runs the peer; see the class comment for the arguments. */
  public static void main(String[] args) throws Exception {
    long invoices = Long.parseLong(args[2]);
    long primes = Long.parseLong(args[3]);
    String topic = args[5];
    long warmUp = Long.parseLong(args[6]);
    KafkaStreams streams = new KafkaStreams(topology(topic).build(), settings(args[0], args[1], args[4]));
    long startedAt = 0;
    long first = 0;
    streams.start();
    while (true) {
      Thread.sleep(20);
      double consumed = consumed(streams, topic);
      if (consumed > warmUp && startedAt == 0) {
        first = (long) consumed;
        startedAt = System.currentTimeMillis();
      }
      if (consumed >= invoices && consumed(streams, "repartition") >= primes) {
        System.out.println(
            "{\"records\": " + ((long) consumed - first) + ", \"millis\": " + (System.currentTimeMillis() - startedAt) + "}");
        streams.close();
        System.exit(0);
      }
    }
  }

  private static Properties settings(String bootstrap, String stateDir, String guarantee) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "pos-peer-" + System.currentTimeMillis());
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, stateDir);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
    settings.put(
        StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, StreamsConfig.EXACTLY_ONCE_V2.equals(guarantee) ? "100" : "1000");
    settings.put("auto.offset.reset", "earliest");
    settings.put("consumer.isolation.level", "read_committed");
    settings.put("producer.linger.ms", "50");
    settings.put("producer.compression.type", "lz4");
    settings.put("producer.batch.size", "262144");
    settings.put("max.poll.records", "5000");
    return settings;
  }

  private static StreamsBuilder topology(String topic) {
    Serde<String> text = Serdes.String();
    Serde<JsonNode> json = jsonSerde();
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(REWARDS), text, Serdes.Double())
            .withCachingEnabled());
    KStream<String, JsonNode> invoices = builder.stream(topic, Consumed.with(text, json));
    invoices
        .filter((key, invoice) -> invoice.path("DeliveryType").asText().equals("HOME-DELIVERY"))
        .to("ks-shipment", Produced.with(text, json));
    invoices
        .filter((key, invoice) -> invoice.path("CustomerType").asText().equals("PRIME"))
        .map((key, invoice) -> notification(invoice))
        .repartition(Repartitioned.with(text, json))
        .process(RunningTotal::new, REWARDS)
        .to("ks-loyalty", Produced.with(text, json));
    invoices.flatMapValues(Pos::maskedLines).to("ks-hadoop-sink", Produced.with(text, json));
    return builder;
  }

  private static KeyValue<String, JsonNode> notification(JsonNode invoice) {
    ObjectNode notification = JSON.createObjectNode();
    notification.set("InvoiceNumber", invoice.get("InvoiceNumber"));
    notification.set("CustomerCardNo", invoice.get("CustomerCardNo"));
    notification.set("TotalAmount", invoice.get("TotalAmount"));
    notification.put("EarnedLoyaltyPoints", invoice.get("TotalAmount").asDouble() * LOYALTY_FACTOR);
    return KeyValue.pair(invoice.get("CustomerCardNo").asText(), notification);
  }

  private static List<JsonNode> maskedLines(JsonNode invoice) {
    List<JsonNode> lines = new ArrayList<>();
    for (JsonNode item : invoice.get("InvoiceLineItems")) {
      ObjectNode line = JSON.createObjectNode();
      for (String field : INVOICE_FIELDS) {
        line.set(field, invoice.get(field));
      }
      for (String field : ADDRESS_FIELDS) {
        line.set(field, invoice.path("DeliveryAddress").get(field));
      }
      line.setAll((ObjectNode) item);
      lines.add(line);
    }
    return lines;
  }

  private static double consumed(KafkaStreams streams, String topic) {
    double sum = 0;
    for (Map.Entry<MetricName, ? extends Metric> entry : streams.metrics().entrySet()) {
      MetricName name = entry.getKey();
      if (name.name().equals("records-consumed-total")
          && name.group().equals("consumer-fetch-manager-metrics")
          && matches(topic, name.tags().get("topic"))
          && !name.tags().containsKey("partition")) {
        sum += (Double) entry.getValue().metricValue();
      }
    }
    return sum;
  }

  private static boolean matches(String wanted, String topic) {
    return topic != null && (topic.equals(wanted) || wanted.equals("repartition") && topic.contains(wanted));
  }

  private static Serde<JsonNode> jsonSerde() {
    return Serdes.serdeFrom(
        (topic, value) -> {
          try {
            return value == null ? null : JSON.writeValueAsBytes(value);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        },
        (topic, bytes) -> {
          try {
            return bytes == null ? null : JSON.readTree(bytes);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        });
  }
}
